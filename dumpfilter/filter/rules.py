"""Rules, as options spell them: a server's (``--replicate-do-db`` and its kin) and WL#2516's (``--do``, ``--ignore``,
``--rewrite``)."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from dumpfilter.errors import OptionError


class BaseRuleKind(enum.Enum):
    """The kinds of rule of one sort of filter; the value is the option's name."""


class RuleKind(BaseRuleKind):
    """The seven kinds of the classic filter."""

    DO_DB = "replicate-do-db"
    IGNORE_DB = "replicate-ignore-db"
    DO_TABLE = "replicate-do-table"
    IGNORE_TABLE = "replicate-ignore-table"
    WILD_DO_TABLE = "replicate-wild-do-table"
    WILD_IGNORE_TABLE = "replicate-wild-ignore-table"
    REWRITE_DB = "replicate-rewrite-db"


class EffectiveRuleKind(BaseRuleKind):
    """The three kinds of the effective filter (WL#2516, "suggested new syntax")."""

    DO = "do"
    IGNORE = "ignore"
    REWRITE = "rewrite"


_Kind = TypeVar("_Kind", bound=BaseRuleKind)


class FilterSemantics(enum.StrEnum):
    """How rules are read: by the server's manual, or by WL#2516, in which the old options are unknown."""

    CLASSIC = "classic"
    EFFECTIVE = "effective"

    @property
    def kinds(self) -> type[BaseRuleKind]:
        """The kinds of rule there are."""
        return EffectiveRuleKind if self is FilterSemantics.EFFECTIVE else RuleKind

    def check(self, kind: BaseRuleKind) -> None:
        """Raises OptionError for a kind of rule that these semantics do not know."""
        if not isinstance(kind, self.kinds):
            raise self._unknown(f"--{kind.value}")

    def kind(self, name: str) -> BaseRuleKind:
        """The kind of an option, by its name, dashes and underscores alike. Raises OptionError."""
        try:
            return self.kinds(name.removeprefix("--").replace("_", "-"))
        except ValueError:
            raise self._unknown(name) from None

    def _unknown(self, name: str) -> OptionError:
        options = ", ".join(f"--{kind.value}" for kind in self.kinds)
        return OptionError(f"unknown option {name!r} in {self} filter semantics; the filters are: {options}")


_TABLE_KINDS = frozenset(
    {RuleKind.DO_TABLE, RuleKind.IGNORE_TABLE, RuleKind.WILD_DO_TABLE, RuleKind.WILD_IGNORE_TABLE}
)
_EXPRESSION = re.compile(r"((?:\\.|[^\\.])+)\.(.*)", re.DOTALL)
_ANY_RUN = re.compile(r"(?:\\.|[^\\%])*", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Rule(NamedTuple):
    """One rule: its kind and the option's value, checked by :func:`make_rule`."""

    kind: BaseRuleKind
    value: str

    def __str__(self) -> str:
        return f"--{self.kind.value}={self.value}"

    @property
    def pair(self) -> tuple[str, str]:
        """FROM and TO of a rewrite rule."""
        source, _, target = self.value.partition("->")
        return source.rstrip(), target.lstrip()


@dataclass(frozen=True)
class FilterClause:
    """``REPLICATE_DO_DB = (a, b)``: the rules that replace those of one kind; none to clear it."""

    kind: BaseRuleKind
    rules: tuple[Rule, ...]


def make_rule(kind: BaseRuleKind, value: str) -> Rule:
    """A rule, or OptionError with the reason in the server's words.

    >>> make_rule(RuleKind.REWRITE_DB, "shop -> store").pair
    ('shop', 'store')
    """
    option = f"--{kind.value}={value}"
    if not value:
        raise OptionError(f"{option}: a value is missing")
    if "\0" in value:
        raise OptionError(f"{option!r}: a name cannot hold a NUL character")
    if kind in _TABLE_KINDS and "." not in value:
        wanted = "db_pattern.table_pattern" if "wild" in kind.value else "db_name.table_name"
        raise OptionError(f"{option}: could not add the rule: it is not in the form {wanted}")
    if kind in (RuleKind.REWRITE_DB, EffectiveRuleKind.REWRITE):
        source, arrow, target = (part.strip() for part in value.partition("->"))
        if not arrow:
            raise OptionError(f"{option}: bad syntax in {kind.value}: missing '->'")
        if not source:
            raise OptionError(f"{option}: bad syntax in {kind.value}: empty FROM db")
        if not target:
            raise OptionError(f"{option}: bad syntax in {kind.value}: empty TO db")
        if kind is EffectiveRuleKind.REWRITE:
            _check_rewrite(option, source, target)
        value = f"{source}->{target}"
    elif isinstance(kind, EffectiveRuleKind):
        _split(option, value)
    return Rule(kind, value)


def make_rules(given: Mapping[_Kind, Sequence[str] | None]) -> list[Rule]:
    """The rules of a command's options: their values by kind. Raises OptionError for the first that cannot be."""
    return [make_rule(kind, value) for kind, values in given.items() for value in values or ()]


def split_expression(expression: str) -> tuple[str, str] | None:
    r"""The two sides of an effective rule's ``db.table``: of its first dot without a backslash before it.

    None when there is no such dot or nothing before it.

    >>> split_expression("%_backup.table2"), split_expression(r"a\.b.c.d"), split_expression("db1")
    (('%_backup', 'table2'), ('a\\.b', 'c.d'), None)
    """
    match = _EXPRESSION.fullmatch(expression)
    return None if match is None else (match[1], match[2])


def rewrite_literals(side: str) -> list[str]:
    r"""What stands before, between and after the ``%`` on one side of a REWRITE's dot, without backslashes.

    >>> rewrite_literals("old_%"), rewrite_literals(r"100\%")
    (['old_', ''], ['100%'])
    """
    runs, at = [], 0
    while True:
        match = _ANY_RUN.match(side, at)
        assert match is not None  # it matches the empty string
        # a backslash at the very end stands for itself
        end = match.end() + side.startswith("\\", match.end())
        runs.append(_ESCAPED.sub(r"\1", side[at:end]))
        if end >= len(side):
            return runs
        at = end + 1


def _split(option: str, expression: str) -> tuple[str, str]:
    sides = split_expression(expression)
    if sides is None:
        raise OptionError(
            f"{option}: {expression!r} is not in the form db_pattern.table_pattern; the dot is mandatory"
        )
    return sides


def _check_rewrite(option: str, source: str, target: str) -> None:
    """Of each side of the dot: at most one ``%`` in FROM, and in TO only where FROM has it."""
    for what, of, to in zip(("db", "table"), _split(option, source), _split(option, target), strict=True):
        if not of or not to:
            raise OptionError(f"{option}: bad syntax in rewrite: an empty {what}")
        runs = len(rewrite_literals(of))
        if runs > 2:
            raise OptionError(f"{option}: bad syntax in rewrite: more than one '%' in the {what} of FROM")
        if len(rewrite_literals(to)) > runs:
            raise OptionError(f"{option}: bad syntax in rewrite: more '%' in the {what} of TO than of FROM")


def parse_option(option: str, semantics: FilterSemantics = FilterSemantics.CLASSIC) -> Rule:
    """A rule from an option in the server's spelling, dashes and underscores alike.

    >>> parse_option("--replicate_wild_do_table=shop.%")
    Rule(kind=<RuleKind.WILD_DO_TABLE: 'replicate-wild-do-table'>, value='shop.%')
    >>> parse_option("--ignore=%.table2", FilterSemantics.EFFECTIVE)
    Rule(kind=<EffectiveRuleKind.IGNORE: 'ignore'>, value='%.table2')
    """
    name, equals, value = option.partition("=")
    kind = semantics.kind(name)
    if not equals:
        raise OptionError(f"{name}: a value is missing; write {name}=VALUE")
    return make_rule(kind, value)


_CLAUSE = re.compile(r"\s*([\w-]+)\s*=\s*(?:'((?:[^'\\]|\\.|'')*)'\s*|(?!')(.*))", re.DOTALL)
_IN_QUOTES = re.compile(r"''|\\([^%_])", re.DOTALL)


def parse_clause(clause: str) -> Rule:
    r"""A rule of the effective filter as WL#2516's ``CHANGE MASTER … TO`` has it: ``DO='db1.%'``.

    In quotes ``''`` is a quote, and so is ``\'``; ``\%`` and ``\_`` keep their backslash, as in a server's string.
    Raises OptionError.

    >>> str(parse_clause("IGNORE='%_backup.table2'")), str(parse_clause("REWRITE=db1.%->db2.%"))
    ('--ignore=%_backup.table2', '--rewrite=db1.%->db2.%')
    """
    match = _CLAUSE.fullmatch(clause)
    if match is None:
        raise OptionError(f"{clause!r}: write DO='db.table', IGNORE='db.table' or REWRITE=db.table->db.table")
    kind = FilterSemantics.EFFECTIVE.kind(match[1].lower())
    quoted, bare = match[2], match[3]
    return make_rule(kind, bare.rstrip() if quoted is None else _IN_QUOTES.sub(lambda m: m[1] or "'", quoted))


def unique(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules without repetitions, in the order given."""
    return tuple(dict.fromkeys(rules))
