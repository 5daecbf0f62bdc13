r"""The rules of a filter, all kinds of rule, such as ``--replicate-do-db``, and the matching of LIKE patterns.

Three enumerations list the kinds: classic, effective, and those of the server that writes the binlog. Each member
has the kind's names and the form of its values. The command line, option files, the console's SQL grammar, the gRPC
contract, the status tables and the documentation take them from there.

In the patterns of ``--replicate-wild-do-table`` and ``--replicate-wild-ignore-table``, ``%`` matches any text, ``_``
matches one character, and ``\`` escapes both, as in the servers' functions ``wild_compare`` and ``my_wildcmp``.

A hit is one use of a filter rule: the server evaluates the rule for a name, and the name matches. MySQL 9.7 counts hits
in ``performance_schema.replication_applier_filters.COUNTER`` as follows, for any ``replica_parallel_workers`` (recorded
in tests/filter/data). The server evaluates the rules once for each Table_map event, not for each rows event, and once
for each statement. A do-db or ignore-db rule that matches counts, and after it the table rule that decides. GRANT on a
table counts a rule for that table and a rule for the grant tables. No match counts nothing. A rewrite rule counts once
for each Table_map event of the database, and once for each statement whose default database the rule renames.

MySQL also counts rules that it evaluates while it executes a statement: for triggers, stored functions and DROP
PROCEDURE, and rewrites of the default database of SAVEPOINT and XA keywords. No filter here counts those hits.
"""

from __future__ import annotations

import difflib
import enum
import fnmatch
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self, TypeVar

from dumpfilter.base.errors import OptionError


class ValueForm(enum.Enum):
    """The kinds of syntax of a rule's value, such as a database's name or a LIKE pattern.

    The syntax decides how a value is checked, written in SQL, and shown. A member's own value is the placeholder for
    the rule's value in ``--help``.
    """

    DATABASE = "DB"
    """A database's name. A comma is part of the name: ``a,b`` is one database."""
    TABLE = "DB.TABLE"
    """A database's and a table's name with a dot between them."""
    WILD_TABLE = "PATTERN"
    """A LIKE pattern for the string ``db.table``."""
    DATABASE_PAIR = "FROM->TO"
    """Two database names: ``FROM->TO`` renames the first to the second."""
    EXPRESSION = "EXPR"
    """An expression of effective rules: a LIKE pattern for the database, a dot, and a LIKE pattern for the table."""
    EXPRESSION_PAIR = "EXPR->EXPR"
    """Two expressions of effective rules: ``FROM->TO`` renames tables that match the first.

    Each pattern for a database or a table has at most one ``%``.
    """


class BaseRuleKind(enum.Enum):
    """The base class of the enumerations of rule kinds. A member's value names the option that sets such a rule, for
    example ``replicate-do-db``.
    """

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
        """Return the kind of rule that an option such as ``--replicate-do-db`` sets, or None for another option.

        Dashes and underscores in ``name`` mean the same.
        """
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
        """The name of this kind of rule in SQL statements and in the column FILTER_NAME, for example
        ``REPLICATE_DO_DB``.
        """
        return self.option.upper().replace("-", "_")

    @property
    def is_rewrite(self) -> bool:
        """Whether rules of this kind rename databases or tables. Such rules drop nothing."""
        return self.form in (ValueForm.DATABASE_PAIR, ValueForm.EXPRESSION_PAIR)


class RuleKind(BaseRuleKind):
    """The kinds of rule of the classic filter (``--replicate-*``), in the order of MySQL's ``enum_filter_type``."""

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
        """The shorter option name for ``dumpfilter binlog``, such as ``do-db``. The worklog WL#40 proposes these names
        for mysqlbinlog.

        The name is empty for kinds without such an option.
        """
        return "" if self.is_rewrite else self.option.removeprefix("replicate-")

    @property
    def status_column(self) -> str:
        """The column of SHOW REPLICA STATUS that shows rules of this kind, such as ``Replicate_Do_DB``."""
        return "_".join("DB" if word == "db" else word.capitalize() for word in self.option.split("-"))


class EffectiveRuleKind(BaseRuleKind):
    """The kinds of rule of an effective filter (WL#2516), which decides by the tables that a statement changes: DO,
    IGNORE and REWRITE.

    A dumpfilter slave has them as options ``--do``, ``--ignore`` and ``--rewrite`` instead of ``--replicate-*``.
    """

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
        """The name of the option that sets this kind of rule for a server that filters its own binlog, such as
        ``binlog-do``.

        The name is empty for REWRITE, since a server renames nothing in its binlog.
        """
        return "" if self.is_rewrite else f"binlog-{self.option}"


class WriteRuleKind(BaseRuleKind):
    """The kinds of rule by which a server keeps events out of its own binlog, for all slaves: ``--binlog-do-db`` and
    ``--binlog-ignore-db``.
    """

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
"""The kinds of rule that a slave's filter may have. Status tables and arrays of hit counts (how often rules matched)
have this order.
"""

COLUMN = {kind: number for number, kind in enumerate(SLAVE_RULE_KINDS)}
"""For each kind of filter rule, the index of its column in an array of hit counts (rule matches)."""

Hits = Counter[BaseRuleKind]
"""The number of times that events matched filter rules, for each kind of rule such as ``--replicate-do-db``."""

SERVER_RULE_KINDS: tuple[BaseRuleKind, ...] = (*RuleKind, *WriteRuleKind)
"""The kinds of rule for which MySQL or MariaDB has an option.

The sections of a server in an option file, such as ``[mysqld]``, may set them.
"""

_Kind = TypeVar("_Kind", bound=BaseRuleKind)


class FilterSemantics(enum.StrEnum):
    """The two rule languages of a slave's filter. Classic rules are those of ``--replicate-*``. Effective rules (DO,
    IGNORE, REWRITE) match only what an event changes, never the default database. One filter cannot mix rules of both.
    """

    CLASSIC = "classic"
    """The rules ``--replicate-*``, which work as the servers' manuals describe."""
    EFFECTIVE = "effective"
    """The rules DO, IGNORE and REWRITE (proposed by WL#2516).

    These rules are about the database and table that an event changes, never about the default database.
    """

    @property
    def kinds(self) -> type[BaseRuleKind]:
        """The enumeration of the kinds of rule that a filter with these semantics can have: RuleKind for classic,
        EffectiveRuleKind for effective.
        """
        return EffectiveRuleKind if self is FilterSemantics.EFFECTIVE else RuleKind

    def check(self, kind: BaseRuleKind) -> None:
        """Raise OptionError when a filter with these semantics cannot have rules of the given kind, such as DO in a
        classic filter.
        """
        check_kind(kind, self.kinds, self.place)

    @property
    def place(self) -> str:
        """The words "in classic filter semantics" or "in effective filter semantics". In an error, they follow the name
        of an option that these semantics do not have.
        """
        return f"in {self} filter semantics"


class WriteSemantics(enum.StrEnum):
    """The ways in which a server that filters its own binlog evaluates its rules.

    SERVER (as today's servers) and WORKLOG (as MySQL's worklog WL#2516 says) evaluate ``--binlog-do-db`` and
    ``--binlog-ignore-db``. The two differ for a statement of a session without a default database.
    """

    SERVER = "server"
    """The behaviour of today's servers.

    MySQL writes a statement without a default database to the binlog. MariaDB checks the rules with an empty database
    name, which no rule matches.
    """
    WORKLOG = "worklog"
    """The behaviour that WL#2516 quotes from MySQL's old manual.

    When there is any rule, the server does not write a statement without a default database to the binlog.
    """
    EFFECTIVE = "effective"
    """The rules DO and IGNORE about the database and table that an event changes (``--binlog-do``,
    ``--binlog-ignore``).
    """


class FilterOn(enum.StrEnum):
    """The choices for the option FILTER_ON of a replication channel: the master, the slave, or both apply the
    rules.
    """

    MASTER = "MASTER"
    """The master filters. The slave applies all row events that it receives without evaluating its rules.

    The slave still evaluates its rules for each statement, because the master sends statements that it cannot decide.
    """
    SLAVE = "SLAVE"
    """The master sends everything and the slave filters, as servers do."""
    BOTH = "BOTH"
    """The master filters, and the slave filters everything again."""


def check_kind(kind: BaseRuleKind, kinds: type[BaseRuleKind], where: str) -> None:
    """Raise OptionError for a rule whose kind is of another enumeration than ``kinds``. ``where`` follows the option's
    name in the error's text.
    """
    if not isinstance(kind, kinds):
        raise _unknown(f"--{kind.option}", kinds, where)


_NEAR = 0.8
"""The minimum similarity (0 to 1) of a known option to a mistyped option, for the error to suggest it. Options of the
other rule language (classic or effective) are less similar.
"""


def _unknown(name: str, kinds: Iterable[BaseRuleKind], where: str) -> OptionError:
    """Return the error about the unknown option ``name``, with the option that was probably meant, or with the options
    of all ``kinds``. ``where`` is the part of the error text after the name.
    """
    known = [f"--{kind.option}" for kind in kinds]
    near = difflib.get_close_matches(f"--{name.lstrip('-').replace('_', '-')}", known, n=1, cutoff=_NEAR)
    hint = f"did you mean {near[0]}?" if near else f"the filters are: {', '.join(known)}"
    return OptionError(f"unknown option {name!r} {where}; {hint}")


class Rule(NamedTuple):
    """One filter rule, such as ``--replicate-do-db=shop``: its kind and its value.

    :func:`make_rule` makes rules and checks their values.
    """

    kind: BaseRuleKind
    value: str

    def __str__(self) -> str:
        return f"--{self.kind.option}={self.value}"

    @property
    def pair(self) -> tuple[str, str]:
        """The two sides FROM and TO of a rewrite rule, whose value is ``FROM->TO``."""
        source, _, target = self.value.partition("->")
        return source.rstrip(), target.lstrip()


@dataclass(frozen=True)
class FilterClause:
    """One clause of CHANGE REPLICATION FILTER, such as ``REPLICATE_DO_DB = (a, b)``.

    The rules of the clause replace all rules of their kind. An empty clause removes the rules of its kind.
    """

    kind: BaseRuleKind
    rules: tuple[Rule, ...]


def make_rule(kind: BaseRuleKind, value: str) -> Rule:
    """Check a value and return a rule of this kind.

    Raises OptionError for an empty value, for a NUL character, and for a value that does not have the form of the kind,
    such as ``DB.TABLE``. The error gives the reason in the server's words.

    >>> make_rule(RuleKind.REWRITE_DB, "shop -> store").pair
    ('shop', 'store')
    """
    option = f"--{kind.option}={value}"
    if not value:
        # mariadbd takes the empty name as the name of no database. Then --replicate-do-db= drops nearly everything.
        raise OptionError(f"{option}: a value is missing; name a database or table, or leave the option out")
    if "\0" in value:
        raise OptionError(f"{option!r}: a name cannot hold a NUL character")
    form = kind.form
    if form in (ValueForm.TABLE, ValueForm.WILD_TABLE) and "." not in value:
        wanted = "db_pattern.table_pattern" if form is ValueForm.WILD_TABLE else "db_name.table_name"
        raise OptionError(f"{option}: could not add the rule: it is not in the form {wanted}")
    if form is ValueForm.EXPRESSION:
        _split(option, value)
    if kind.is_rewrite:
        value = _pair(kind, option, value)
    return Rule(kind, value)


def make_rules(given: Mapping[_Kind, Sequence[str] | None]) -> list[Rule]:
    """Return the rules of a command's options. ``given`` maps each kind of rule to the values of its option, or to None
    if the option is absent.

    Raises OptionError for the first bad value.
    """
    return [make_rule(kind, value) for kind, values in given.items() for value in values or ()]


def _pair(kind: BaseRuleKind, option: str, value: str) -> str:
    """Check the value of a rewrite rule, and return it as ``FROM->TO`` without spaces around the two names.

    Raises OptionError for a missing arrow or an empty name, and for too many ``%`` in a pattern. The error's text
    begins with ``option``.
    """
    source, arrow, target = (part.strip() for part in value.partition("->"))
    if not arrow:
        raise OptionError(f"{option}: bad syntax in {kind.option}: missing '->'")
    if not source:
        raise OptionError(f"{option}: bad syntax in {kind.option}: empty FROM db")
    if not target:
        raise OptionError(f"{option}: bad syntax in {kind.option}: empty TO db")
    if kind.form is ValueForm.EXPRESSION_PAIR:
        for side, of, to in zip(("db", "table"), _split(option, source), _split(option, target), strict=True):
            if not of or not to:
                raise OptionError(f"{option}: bad syntax in rewrite: an empty {side}")
            runs = len(rewrite_literals(of))
            if runs > 2:
                raise OptionError(f"{option}: bad syntax in rewrite: more than one '%' in the {side} of FROM")
            if len(rewrite_literals(to)) > runs:
                raise OptionError(
                    f"{option}: bad syntax in rewrite: more '%' in the {side} of TO than of FROM"
                )
    return f"{source}->{target}"


def _split(option: str, expression: str) -> tuple[str, str]:
    sides = split_expression(expression)
    if sides is None:
        raise OptionError(
            f"{option}: {expression!r} is not in the form db_pattern.table_pattern; the dot is mandatory"
        )
    return sides


_EXPRESSION = re.compile(r"((?:\\.|[^\\.])+)\.(.*)", re.DOTALL)


def split_expression(expression: str) -> tuple[str, str] | None:
    r"""Split an expression of a DO, IGNORE or REWRITE rule, such as ``db%.table%``, into its LIKE patterns for the
    database and for the table.

    The first dot without a backslash separates the patterns. Return None without such a dot, or without text before the
    dot.

    >>> split_expression("%_backup.table2"), split_expression(r"a\.b.c.d"), split_expression("db1")
    (('%_backup', 'table2'), ('a\\.b', 'c.d'), None)
    """
    match = _EXPRESSION.fullmatch(expression)
    return None if match is None else (match[1], match[2])


def rewrite_literals(side: str) -> list[str]:
    r"""Return the texts before, between and after the ``%`` signs of a pattern, without their escaping backslashes.

    ``side`` is the pattern for the database or for the table in a REWRITE rule.

    >>> rewrite_literals("old_%"), rewrite_literals(r"100\%")
    (['old_', ''], ['100%'])
    """
    runs = [""]
    for token in wild_tokens(side):
        if token == MANY:
            runs.append("")
        else:
            runs[-1] += "_" if token == ANY else token
    return runs


def parse_option(option: str, semantics: FilterSemantics = FilterSemantics.CLASSIC) -> Rule:
    """Return the rule that an option such as ``--replicate-do-db=shop`` describes. ``semantics`` tells which options
    there are: ``--replicate-*``, or DO, IGNORE and REWRITE.

    Dashes and underscores in the option's name mean the same. Raises OptionError for any other option, and for a
    missing or malformed value.

    >>> parse_option("--replicate_wild_do_table=shop.%")
    Rule(kind=<RuleKind.WILD_DO_TABLE: 'replicate-wild-do-table'>, value='shop.%')
    >>> parse_option("--ignore=%.table2", FilterSemantics.EFFECTIVE)
    Rule(kind=<EffectiveRuleKind.IGNORE: 'ignore'>, value='%.table2')
    """
    return parse_option_of(option, semantics.kinds, semantics.place)


def parse_option_of(option: str, kinds: type[BaseRuleKind], where: str) -> Rule:
    """Return the rule that an option describes, for one of the given ``kinds`` of rules.

    Dashes and underscores in the option's name mean the same. Raises OptionError for any other option, for a missing or
    empty value, and for a NUL character in the value. In the first error, ``where`` follows the option's name.

    >>> str(parse_option_of("--binlog_do_db=shop", WriteRuleKind, "of the write side"))
    '--binlog-do-db=shop'
    """
    name, equals, value = option.partition("=")
    kind = kinds.of_option(name)
    if kind is None:
        raise _unknown(name, kinds, where)
    if not equals:
        raise OptionError(f"{name}: a value is missing; write {name}=VALUE")
    return make_rule(kind, value)


def unique(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules without repetitions, in the order given."""
    return tuple(dict.fromkeys(rules))


ANY, MANY = "\0_", "\0%"
"""The tokens of a LIKE pattern for the wildcards ``_`` and ``%``. Any other token is one character."""


def wild_tokens(pattern: str, fold: Callable[[str], str] = str) -> list[str]:
    """Return the tokens of a LIKE pattern. A token is a character, converted by ``fold``, or ANY for ``_``, or MANY for
    ``%``.

    A backslash at the end has no character to escape, so it stands for itself.
    """
    tokens = []
    characters = iter(pattern)
    for character in characters:
        if character == "\\":
            tokens.append(fold(next(characters, "\\")))
        else:
            tokens.append({"_": ANY, "%": MANY}.get(character) or fold(character))
    return tokens


def escaped(name: str) -> str:
    r"""Return a LIKE pattern that matches only ``name``.

    >>> escaped("a_b"), escaped("shop")
    ('a\\_b', 'shop')
    """
    return "".join(f"\\{character}" if character in "\\%_" else character for character in name)


class WildSet:
    r"""A list of LIKE patterns (``%``, ``_``, escape ``\``) with an index that quickly finds the first pattern that a
    name matches.

    Each pattern is stored under the rarest of its literal texts. A name is compared only with patterns whose stored
    text occurs in the name. So ten thousand patterns such as ``db7.%`` cost a few look-ups for each name instead of ten
    thousand comparisons. ``fold`` returns the comparison key (collation weight) of a character, as one character.
    Characters with equal keys match, for example ``A`` and ``a`` if case does not count.

    >>> patterns = WildSet([r"a\_b.%", "%.t"])
    >>> patterns.first("a_b.t"), patterns.first("axb.t1"), patterns.first("db.with.dots.t")
    (0, None, 1)
    """

    def __init__(self, patterns: Sequence[str], fold: Callable[[str], str] = str) -> None:
        self._patterns = [wild_tokens(pattern, fold) for pattern in patterns]
        self._compiled: dict[int, re.Pattern[str]] = {}
        literals = [_literals(tokens) for tokens in self._patterns]
        frequency = Counter(run for runs in literals for run in set(runs))
        self._by_run: dict[int, dict[str, list[int]]] = {}
        for number, runs in enumerate(literals):
            # A pattern of wildcards only is stored under the empty text, which every name has.
            run = min(runs, key=lambda run: (frequency[run], -len(run)), default="")
            self._by_run.setdefault(len(run), {}).setdefault(run, []).append(number)

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def first(self, text: str) -> int | None:
        """Return the index of the first LIKE pattern that a name matches, or None without a match.

        ``text`` is the name, in which the caller has replaced each character by its comparison key (collation weight).
        """
        candidates: set[int] = set()
        for length, runs in self._by_run.items():
            for start in range(len(text) - length + 1 if length else 1):
                candidates.update(runs.get(text[start : start + length], ()))
        return next((number for number in sorted(candidates) if self._matches(number, text)), None)

    def may_match(self, begin: str) -> bool:
        """Tell whether any of the LIKE patterns matches some name that begins with ``begin``. The caller has replaced
        each character of ``begin`` by its comparison key (collation weight).
        """
        return any(_rests(tokens, begin) for tokens in self._patterns)

    def matches_all(self, begin: str) -> bool:
        """Tell whether a single LIKE pattern matches all longer names that begin with ``begin``. The caller has
        replaced each character of ``begin`` by its comparison key (collation weight).
        """
        rests = (rest for tokens in self._patterns for rest in _rests(tokens, begin))
        return any(rest in ([MANY], [ANY, MANY], [MANY, ANY]) for rest in rests)

    def _matches(self, number: int, text: str) -> bool:
        if number not in self._compiled:
            self._compiled[number] = _regex(self._patterns[number])
        return self._compiled[number].fullmatch(text) is not None


def _rests(tokens: list[str], begin: str) -> list[list[str]]:
    """Return the possible rests of a LIKE pattern (``tokens``) after its first tokens have matched the text ``begin``.
    Each rest is a list of tokens.

    There may be several rests, since ``%`` matches texts of any length. The result is empty if the pattern matches no
    text that begins with ``begin``.
    """
    rests: list[list[str]] = []
    ends = {0}  # The lengths of the beginnings of ``begin`` that the tokens up to here match.
    for number, token in enumerate(tokens):
        if token != MANY:
            ends = {end + 1 for end in ends if end < len(begin) and token in (ANY, begin[end])}
        elif ends:
            rests.append(tokens[number:])
            ends = set(range(min(ends), len(begin) + 1))
        if len(begin) in ends:
            rests.append(tokens[number + 1 :])
    return rests


def _literals(tokens: list[str]) -> list[str]:
    """Return the texts of a pattern between its wildcards, which every matching name contains."""
    groups = itertools.groupby(tokens, lambda token: token not in (ANY, MANY))
    return ["".join(run) for is_literal, run in groups if is_literal]


def _regex(tokens: list[str]) -> re.Pattern[str]:
    # fnmatch makes an expression in which the steps of several wildcards do not multiply.
    wildcards = {ANY: "?", MANY: "*"}
    return re.compile(
        fnmatch.translate(
            "".join(wildcards.get(token) or (f"[{token}]" if token in "*?[" else token) for token in tokens)
        )
    )
