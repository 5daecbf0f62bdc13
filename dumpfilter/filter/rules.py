"""Rules of a filter, and the one table of the kinds of rule.

The table is the three enumerations below. The command line, option files, the console's SQL grammar, the network
contract, the status tables and the documentation take a kind's names and the form of its values from there.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

from dumpfilter.errors import OptionError


class ValueForm(enum.Enum):
    """The form of a rule's value. It decides how the value is checked, written in SQL, and shown.

    The member's value is the placeholder in ``--help``.
    """

    DATABASE = "DB"
    """A database's name, all of it: ``a,b`` is one database."""
    TABLE = "DB.TABLE"
    """A database's and a table's name with a dot between them."""
    WILD_TABLE = "PATTERN"
    """A LIKE pattern for the string ``db.table``."""
    DATABASE_PAIR = "FROM->TO"
    """Two databases' names."""
    EXPRESSION = "EXPR"
    """Two LIKE patterns, for the database and for the table, with a dot between them (WL#2516)."""
    EXPRESSION_PAIR = "EXPR->EXPR"
    """Two expressions with at most one ``%`` on each side of their dots (WL#2516)."""


class BaseRuleKind(enum.Enum):
    """The kinds of rule of one sort of filter. A member's value is the name of its option."""

    _value_: str
    form: ValueForm
    help: str

    def __new__(cls, option: str, form: ValueForm, help: str) -> BaseRuleKind:
        kind = object.__new__(cls)
        kind._value_ = option
        kind.form = form
        kind.help = help
        return kind

    @classmethod
    def of_option(cls, name: str) -> Self | None:
        """Return the kind with this option, where dashes and underscores are alike, or None."""
        option = name.removeprefix("--").replace("_", "-")
        return next((kind for kind in cls if kind.option == option), None)

    @property
    def option(self) -> str:
        """The option's name on the command line and in option files, without dashes in front: ``replicate-do-db``."""
        return self._value_

    @property
    def metavar(self) -> str:
        """The placeholder for the option's value in ``--help``."""
        return self.form.value

    @property
    def sql_name(self) -> str:
        """The name in statements, and in the column FILTER_NAME: ``REPLICATE_DO_DB``."""
        return self.option.upper().replace("-", "_")

    @property
    def is_rewrite(self) -> bool:
        """Whether rules of this kind rename and drop nothing."""
        return self.form in (ValueForm.DATABASE_PAIR, ValueForm.EXPRESSION_PAIR)


class RuleKind(BaseRuleKind):
    """The kinds of the classic filter, in the order of the server's ``enum_filter_type``."""

    DO_DB = (
        "replicate-do-db",
        ValueForm.DATABASE,
        "Keep only row events of this database's tables and statements with this current database.",
    )
    IGNORE_DB = (
        "replicate-ignore-db",
        ValueForm.DATABASE,
        "Drop row events of this database's tables and statements with this current database. Not asked where there "
        "is a do-db rule.",
    )
    DO_TABLE = ("replicate-do-table", ValueForm.TABLE, "Keep changes of this table.")
    IGNORE_TABLE = ("replicate-ignore-table", ValueForm.TABLE, "Drop changes of this table.")
    WILD_DO_TABLE = (
        "replicate-wild-do-table",
        ValueForm.WILD_TABLE,
        "Keep changes of tables whose db.table, as one string, matches this LIKE pattern.",
    )
    WILD_IGNORE_TABLE = (
        "replicate-wild-ignore-table",
        ValueForm.WILD_TABLE,
        "Drop changes of tables whose db.table, as one string, matches this LIKE pattern.",
    )
    REWRITE_DB = (
        "replicate-rewrite-db",
        ValueForm.DATABASE_PAIR,
        "Call the database FROM by the name TO before all other rules are asked. Drops nothing.",
    )

    @property
    def worklog_option(self) -> str:
        """WL#40's name of the option for mysqlbinlog: ``do-db``. Empty for kinds that WL#40 does not have."""
        return "" if self.is_rewrite else self.option.removeprefix("replicate-")

    @property
    def status_column(self) -> str:
        """The column of SHOW REPLICA STATUS: ``Replicate_Do_DB``."""
        return "_".join("DB" if word == "db" else word.capitalize() for word in self.option.split("-"))


class EffectiveRuleKind(BaseRuleKind):
    """The kinds of the effective filter (WL#2516, "suggested new syntax")."""

    DO = (
        "do",
        ValueForm.EXPRESSION,
        "Keep changes of tables that match, although --ignore matches them too.",
    )
    IGNORE = ("ignore", ValueForm.EXPRESSION, "Drop changes of tables that match.")
    REWRITE = (
        "rewrite",
        ValueForm.EXPRESSION_PAIR,
        "Call tables that match by another name, for example db1.%->db2.%. Drops nothing.",
    )

    @property
    def binlog_option(self) -> str:
        """The option of the write side: ``binlog-do``. Empty for kinds that the write side does not have."""
        return "" if self.is_rewrite else f"binlog-{self.option}"


class WriteRuleKind(BaseRuleKind):
    """The kinds of the write side's filter."""

    DO_DB = (
        "binlog-do-db",
        ValueForm.DATABASE,
        "Keep only what a server with this option writes to its binlog.",
    )
    IGNORE_DB = (
        "binlog-ignore-db",
        ValueForm.DATABASE,
        "Drop what a server with this option does not write to its binlog.",
    )


SLAVE_RULE_KINDS: tuple[BaseRuleKind, ...] = (*RuleKind, *EffectiveRuleKind)
"""The kinds that a slave's filter may have, in the order of the status tables and of arrays of hits."""

SERVER_RULE_KINDS: tuple[BaseRuleKind, ...] = (*RuleKind, *WriteRuleKind)
"""The kinds that the servers have options for, so that a server's section of an option file may set them."""

_Kind = TypeVar("_Kind", bound=BaseRuleKind)


class FilterSemantics(enum.StrEnum):
    """The ways to read a slave's rules. Each way has kinds of rule of its own and refuses the others."""

    CLASSIC = "classic"
    """As the servers' manuals describe ``--replicate-*``."""
    EFFECTIVE = "effective"
    """By what is changed, never by the current database (WL#2516)."""

    @property
    def kinds(self) -> type[BaseRuleKind]:
        """The kinds of rule in these semantics."""
        return EffectiveRuleKind if self is FilterSemantics.EFFECTIVE else RuleKind

    def check(self, kind: BaseRuleKind) -> None:
        """Raise OptionError for a kind of rule that these semantics do not have."""
        if not isinstance(kind, self.kinds):
            raise self._unknown(f"--{kind.option}")

    def kind(self, name: str) -> BaseRuleKind:
        """Return the kind of an option by its name, where dashes and underscores are alike. Raises OptionError."""
        kind = self.kinds.of_option(name)
        if kind is None:
            raise self._unknown(name)
        return kind

    def _unknown(self, name: str) -> OptionError:
        return OptionError(
            f"unknown option {name!r} in {self} filter semantics; the filters are: {option_list(self.kinds)}"
        )


class WriteSemantics(enum.StrEnum):
    """The ways to read the write side's rules."""

    SERVER = "server"
    """As the servers do. MySQL writes a statement without a current database. MariaDB takes the empty name for its
    database, which no rule has."""
    WORKLOG = "worklog"
    """As the manual once said (WL#2516, "Binlog filtering", step 2). A statement without a current database is not
    written when there is any rule."""
    EFFECTIVE = "effective"
    """By DO and IGNORE of what is changed (WL#2516, ``CHANGE BINLOG … TO``)."""


class FilterOn(enum.StrEnum):
    """The places where a channel's filter runs."""

    MASTER = "MASTER"
    """The master filters. The slave trusts it with rows, and asks its own filter about statements again, since the
    master cannot decide some of them."""
    SLAVE = "SLAVE"
    """The master sends everything and the slave filters, as servers do."""
    BOTH = "BOTH"
    """The master filters, and the slave filters everything again."""


def option_list(kinds: Iterable[BaseRuleKind]) -> str:
    """Return the options of some kinds for an error's text: ``--do, --ignore, --rewrite``."""
    return ", ".join(f"--{kind.option}" for kind in kinds)


class Rule(NamedTuple):
    """One rule. :func:`make_rule` has checked the value."""

    kind: BaseRuleKind
    value: str

    def __str__(self) -> str:
        return f"--{self.kind.option}={self.value}"

    @property
    def pair(self) -> tuple[str, str]:
        """FROM and TO of a rewrite rule."""
        source, _, target = self.value.partition("->")
        return source.rstrip(), target.lstrip()


@dataclass(frozen=True)
class FilterClause:
    """``REPLICATE_DO_DB = (a, b)``: the rules that replace all rules of one kind. No rules clear the kind."""

    kind: BaseRuleKind
    rules: tuple[Rule, ...]


def make_rule(kind: BaseRuleKind, value: str) -> Rule:
    """Return a rule of a kind. Raises OptionError with the reason in the server's words.

    >>> make_rule(RuleKind.REWRITE_DB, "shop -> store").pair
    ('shop', 'store')
    """
    option = f"--{kind.option}={value}"
    if not value:
        raise OptionError(f"{option}: a value is missing")
    if "\0" in value:
        raise OptionError(f"{option!r}: a name cannot hold a NUL character")
    return Rule(kind, _CHECKS[kind.form](kind, option, value))


def make_rules(given: Mapping[_Kind, Sequence[str] | None]) -> list[Rule]:
    """Return the rules for a command's options, given as values by kind. Raises OptionError for the first bad value."""
    return [make_rule(kind, value) for kind, values in given.items() for value in values or ()]


def _check_database(kind: BaseRuleKind, option: str, value: str) -> str:
    return value


def _check_table(kind: BaseRuleKind, option: str, value: str) -> str:
    if "." not in value:
        is_wild = kind.form is ValueForm.WILD_TABLE
        wanted = "db_pattern.table_pattern" if is_wild else "db_name.table_name"
        raise OptionError(f"{option}: could not add the rule: it is not in the form {wanted}")
    return value


def _check_database_pair(kind: BaseRuleKind, option: str, value: str) -> str:
    source, target = _split_pair(kind, option, value)
    return f"{source}->{target}"


def _check_expression(kind: BaseRuleKind, option: str, value: str) -> str:
    _split(option, value)
    return value


def _check_expression_pair(kind: BaseRuleKind, option: str, value: str) -> str:
    source, target = _split_pair(kind, option, value)
    for side, of, to in zip(("db", "table"), _split(option, source), _split(option, target), strict=True):
        if not of or not to:
            raise OptionError(f"{option}: bad syntax in rewrite: an empty {side}")
        runs = len(rewrite_literals(of))
        if runs > 2:
            raise OptionError(f"{option}: bad syntax in rewrite: more than one '%' in the {side} of FROM")
        if len(rewrite_literals(to)) > runs:
            raise OptionError(f"{option}: bad syntax in rewrite: more '%' in the {side} of TO than of FROM")
    return f"{source}->{target}"


_CHECKS: dict[ValueForm, Callable[[BaseRuleKind, str, str], str]] = {
    ValueForm.DATABASE: _check_database,
    ValueForm.TABLE: _check_table,
    ValueForm.WILD_TABLE: _check_table,
    ValueForm.DATABASE_PAIR: _check_database_pair,
    ValueForm.EXPRESSION: _check_expression,
    ValueForm.EXPRESSION_PAIR: _check_expression_pair,
}


def _split_pair(kind: BaseRuleKind, option: str, value: str) -> tuple[str, str]:
    source, arrow, target = (part.strip() for part in value.partition("->"))
    if not arrow:
        raise OptionError(f"{option}: bad syntax in {kind.option}: missing '->'")
    if not source:
        raise OptionError(f"{option}: bad syntax in {kind.option}: empty FROM db")
    if not target:
        raise OptionError(f"{option}: bad syntax in {kind.option}: empty TO db")
    return source, target


def _split(option: str, expression: str) -> tuple[str, str]:
    sides = split_expression(expression)
    if sides is None:
        raise OptionError(
            f"{option}: {expression!r} is not in the form db_pattern.table_pattern; the dot is mandatory"
        )
    return sides


_EXPRESSION = re.compile(r"((?:\\.|[^\\.])+)\.(.*)", re.DOTALL)
_ANY_RUN = re.compile(r"(?:\\.|[^\\%])*", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def split_expression(expression: str) -> tuple[str, str] | None:
    r"""Return the database's and the table's side of an expression: before and after the first unescaped dot.

    Return None when there is no such dot, or nothing before the dot.

    >>> split_expression("%_backup.table2"), split_expression(r"a\.b.c.d"), split_expression("db1")
    (('%_backup', 'table2'), ('a\\.b', 'c.d'), None)
    """
    match = _EXPRESSION.fullmatch(expression)
    return None if match is None else (match[1], match[2])


def rewrite_literals(side: str) -> list[str]:
    r"""Return the literal texts before, between and after the ``%`` in one side of a rewrite expression, unescaped.

    >>> rewrite_literals("old_%"), rewrite_literals(r"100\%")
    (['old_', ''], ['100%'])
    """
    runs, at = [], 0
    while True:
        match = _ANY_RUN.match(side, at)
        assert match is not None  # the expression matches the empty string, too
        # a backslash at the very end stands for itself
        end = match.end() + side.startswith("\\", match.end())
        runs.append(_ESCAPED.sub(r"\1", side[at:end]))
        if end >= len(side):
            return runs
        at = end + 1


def parse_option(option: str, semantics: FilterSemantics = FilterSemantics.CLASSIC) -> Rule:
    """Return the rule of an option in the server's spelling, where dashes and underscores are alike.

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


def parse_write_option(option: str) -> Rule:
    """Return the rule of a write-side option, where dashes and underscores are alike. Raises OptionError.

    >>> str(parse_write_option("--binlog_do_db=shop"))
    '--binlog-do-db=shop'
    """
    name, equals, value = option.partition("=")
    kind = WriteRuleKind.of_option(name)
    if kind is None:
        known = option_list(WriteRuleKind)
        raise OptionError(f"unknown option {name!r}; the write side's are: {known}")
    if not equals:
        raise OptionError(f"{name}: a value is missing; write {name}=VALUE")
    return make_rule(kind, value)


_CLAUSE = re.compile(r"\s*([\w-]+)\s*=\s*(?:'((?:[^'\\]|\\.|'')*)'\s*|(?!')(.*))", re.DOTALL)
_IN_QUOTES = re.compile(r"''|\\([^%_])", re.DOTALL)


def parse_clause(clause: str) -> Rule:
    r"""Return a rule of the effective filter in the spelling of WL#2516's ``CHANGE MASTER … TO``: ``DO='db1.%'``.

    In quotes ``''`` is a quote, and so is ``\'``. As in a server's string, ``\%`` and ``\_`` keep their backslash.
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
    """Return the rules without repetitions, in the order given."""
    return tuple(dict.fromkeys(rules))
