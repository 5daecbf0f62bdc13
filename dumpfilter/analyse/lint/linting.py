"""The entry point of lint, and the checks of the rules themselves.

These checks find rules that match nothing in the binlog set, with the probable reason, and rules that match too much.
The checks also find rules without effect, because the server never evaluates them or another rule decides first.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from dumpfilter.analyse.lint.findings import Code, FilterWarning, Item, Level, few, joined, listed
from dumpfilter.analyse.lint.knowledge import SetEvent, SetKnowledge
from dumpfilter.analyse.lint.replica import ReplicaWalk
from dumpfilter.filter.base import Decision, FilterAround, ReplicationFilter, Step
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import BaseRuleKind, Rule, RuleKind, ValueForm
from dumpfilter.index.subjects import Subject, TableSubject, numbers_on_tables


def lint(rule_filter: ReplicationFilter, knowledge: SetKnowledge) -> list[FilterWarning]:
    """Return the warnings about a filter, for the binlog set that ``knowledge`` describes. Those of the level NOTE (a
    rule without effect, which may be intended) come last.

    >>> from dumpfilter.filter import Filter
    >>> from dumpfilter.analyse.lint.knowledge import knowledge_of
    >>> from dumpfilter.index.subjects import TableSubject
    >>> known = knowledge_of([TableSubject("shop", "orders"), TableSubject("hr", "emp")])
    >>> for warning in lint(Filter.from_options(["--replicate-do-db=shop,hr", "--replicate-do-db=shop"]), known):
    ...     print(warning)
    comma: --replicate-do-db=shop,hr: no database 'shop,hr' in this set: a comma does not separate names, \
but belongs to the name. Did you mean --replicate-do-db=shop --replicate-do-db=hr?
    """
    items: list[Item] = []
    remembering = RememberingFilter(rule_filter)
    if isinstance(rule_filter, Filter):
        names = names_of(rule_filter, knowledge)
        subjects = [event.subject for event in knowledge.events]
        subjects += [TableSubject(*table) for table in knowledge.tables]
        decisions = {subject: remembering.decide(subject) for subject in subjects}
        deciding = {decision.rule for decision in decisions.values()}
        rules, notes = compared(
            [rule for rule in rule_filter.rules if rule not in deciding or _has_any(rule)], names
        )
        unused = [rule for rule in rules if rule not in deciding]
        items += notes
        items += odd_names(rule_filter, knowledge, names, unused)
        for rule in filter(_has_any, rules):
            items += _underscores(rule_filter, rule, names)
        items += merged_tables(rule_filter, knowledge)
        items += _unasked(rule_filter, names)
        for rule in unused:
            if rule.kind.form in _TABLE_FORMS:
                items += _preceded(rule_filter, rule, names)
        items += _nothing_passes(rule_filter, knowledge, decisions)
    items += ReplicaWalk(remembering).walk(knowledge)
    items += dropped_xa(remembering, knowledge)
    return sorted(joined(items), key=lambda warning: warning.level is Level.NOTE)


def dropped_xa(rule_filter: ReplicationFilter, knowledge: SetKnowledge) -> Iterator[Item]:
    """Yield a fault for each XA transaction of which the filter drops all changes. A replica that itself filters then
    stops with an error. ``knowledge`` has the XA transactions that lint has collected from the binlog set.
    """
    if rule_filter.names.family == "mysql":
        stop = "stops with error 3898"
    else:
        # Seen with MariaDB 10.11: the replica writes its empty XA COMMIT under the GTID of the XA PREPARE.
        stop = "stops with error 1950 if it has gtid_strict_mode and log_slave_updates"
    for subjects, evidence in knowledge.xa_transactions:
        if subjects and not any(rule_filter.verdict(subject).passes for subject in subjects):
            yield Item(
                Code.XA_DROPPED,
                few(rule_filter.rules),
                "the filter drops all changes of an XA transaction. A replica that reads everything and filters for "
                f"itself {stop}",
                "Nothing is to do behind dumpfilter, which does not send such a transaction",
                events=(SetEvent(subjects[0], evidence),),
            )


class RememberingFilter(FilterAround):
    """A filter that caches the decisions of another filter, because lint needs each decision several times."""

    def __init__(self, inner: ReplicationFilter) -> None:
        super().__init__(inner)
        self._decide = functools.cache(inner.decide)

    def decide(self, subject: Subject) -> Decision:
        return self._decide(subject)


Name = tuple[str, str]
_CLOSE = 0.75
"""The minimum similarity (0 to 1, difflib's ratio) at which lint takes one name for a misspelling of another."""

_MOST_COMPARED = 5000
"""The maximum number of names that lint compares with a rule to find a misspelling."""

_MOST_COMPARISONS = 500_000
"""The maximum number of comparisons of rules with names of the binlog set. Beyond it, a filter's later rules are not
checked.
"""

_COMMA = "a comma does not separate names, but belongs to the name"
_QUOTES = "'\"`´‘’“” \t"
_OF_TABLES: dict[BaseRuleKind, RuleKind] = {
    RuleKind.DO_DB: RuleKind.DO_TABLE,
    RuleKind.IGNORE_DB: RuleKind.IGNORE_TABLE,
}
_WITH_PATTERNS: dict[BaseRuleKind, RuleKind] = {
    RuleKind.DO_DB: RuleKind.WILD_DO_TABLE,
    RuleKind.IGNORE_DB: RuleKind.WILD_IGNORE_TABLE,
    RuleKind.DO_TABLE: RuleKind.WILD_DO_TABLE,
    RuleKind.IGNORE_TABLE: RuleKind.WILD_IGNORE_TABLE,
}
"""For each kind of rule without patterns, the kind with patterns that can replace it."""

_TABLE_FORMS = (ValueForm.TABLE, ValueForm.WILD_TABLE)
_ESCAPED_OR_ANY = re.compile(r"(\\.)|_", re.DOTALL)


@dataclass(frozen=True)
class RuleNames:
    """The names of databases and tables in a binlog set as a filter's rules see them, after ``--replicate-rewrite-db``.
    Each mapping has the names as keys, and as value the first event that uses the name.
    """

    databases: dict[str, SetEvent]
    tables: dict[Name, SetEvent]
    sources: dict[str, SetEvent]
    """The databases' names in the binlog, before ``--replicate-rewrite-db``, each with the first event that names it.
    """


class RuleAlone:
    """One rule of a filter, evaluated as if it were the only rule, to find the names of a binlog set that the rule
    matches.
    """

    def __init__(self, rule_filter: Filter, rule: Rule) -> None:
        self._filter = Filter([rule], names=rule_filter.names)
        self._kind = rule.kind

    def matches_table(self, name: Name) -> bool:
        """Tell whether the rule matches the table ``name`` or, if it is about databases, the table's database."""
        return self._filter.decide(TableSubject(*name)).rule is not None

    def matches_database(self, name: str) -> bool:
        """Tell whether the rule matches the database ``name``. A wild rule is compared as the server does for CREATE
        DATABASE. A rule about a table without wildcards matches no database.
        """
        if self._kind.form is ValueForm.WILD_TABLE:
            return self._filter.db_ok_with_wild_table(name) is (self._kind is RuleKind.WILD_DO_TABLE)
        return self._kind.form is ValueForm.DATABASE and self.matches_table((name, ""))

    def match(self, names: RuleNames) -> SetEvent | None:
        """Return the first event of a database or table that the rule matches, or None if the rule matches no name in
        ``names``.
        """
        if self._kind is RuleKind.REWRITE_DB:
            sources = names.sources.items()
            return next((event for name, event in sources if self._filter.rewrite_db(name) != name), None)
        events = chain(
            (event for name, event in names.databases.items() if self.matches_database(name)),
            (event for name, event in names.tables.items() if self.matches_table(name)),
        )
        return next(events, None)


def odd_names(
    rule_filter: Filter, knowledge: SetKnowledge, names: RuleNames, unused: Iterable[Rule]
) -> Iterator[Item]:
    """Yield the faults in the names of databases and tables in a classic (``--replicate-*``) filter's rules.

    ``knowledge`` has the data that lint has collected about the binlog set, and ``names`` the names in the set, after
    the filter's rewrite rules. The rules ``unused`` decide about nothing in the set. ``knowledge.is_whole`` is False if
    lint has collected only a part of the set. A rule that matches nothing is then a fault only if its name is
    improbable, for example because of a comma.
    """
    for rule in unused:
        if RuleAlone(rule_filter, rule).match(names) is None:
            if knowledge.is_whole and names.databases:
                yield _no_match(rule_filter, rule, names)
            elif not knowledge.is_whole:
                yield from _unlikely(rule_filter, rule)
    for rule in rule_filter.rules if rule_filter.names.lower_case_table_names else ():
        if rule.kind is RuleKind.REWRITE_DB and (new := rule.pair[1]) != new.lower():
            event = RuleAlone(rule_filter, rule).match(names)
            if event is not None:
                what = f"servers never lower-case {new!r}: at rows MariaDB stops with error 1146, and MySQL crashes"
                meant = Rule(rule.kind, f"{rule.pair[0]}->{new.lower()}")
                yield Item(Code.CASE, (rule,), what, f"Write {_option(meant)}", events=shown(event))


def names_of(rule_filter: Filter, knowledge: SetKnowledge) -> RuleNames:
    """Return the names of the databases and tables in a binlog set, with which the rules of a filter are compared.

    Databases have the names that the filter's ``--replicate-rewrite-db`` rules give them. The result also has the
    databases' names in the binlog. ``knowledge`` has the data that lint has collected about the set.
    """
    databases: dict[str, SetEvent] = {}
    tables: dict[Name, SetEvent] = {}
    for database, event in knowledge.databases.items():
        databases.setdefault(rule_filter.rewrite_db(database), event)
    for (database, table), event in knowledge.tables.items():
        tables.setdefault((rule_filter.rewrite_db(database), table), event)
    return RuleNames(databases, tables, knowledge.databases)


def _no_match(rule_filter: Filter, rule: Rule, names: RuleNames) -> Item:
    about_tables = rule.kind.form in _TABLE_FORMS
    known: dict[str, SetEvent] = names.databases
    if rule.kind is RuleKind.REWRITE_DB:
        known = names.sources
    elif about_tables:
        known = {".".join(name): event for name, event in names.tables.items()}
    value = _value(rule)
    missing = f"no {'table' if about_tables else 'database'} {value!r} in this set"
    for code, why, meant in _reasons(rule_filter, rule):
        matches = (RuleAlone(rule_filter, each).match(names) for each in meant)
        event = next((each for each in matches if each is not None), None)
        if event is not None or code in (Code.COMMA, Code.RENAMED):
            what = why if code is Code.RENAMED else f"{missing}: {why}"
            return Item(code, (rule,), what, _cure(code, meant), events=shown(event))
    is_wild, lowered = rule.kind.form is ValueForm.WILD_TABLE, value.lower()
    alone = RuleAlone(rule_filter, Rule(rule.kind, lowered))
    for name, event in known.items():
        database, _, table = name.lower().partition(".")
        if alone.matches_table((database, table)) if is_wild else name.lower() == lowered:
            if rule_filter.names.family == "mariadb" and rule_filter.names.lower_case_table_names:
                name = lowered  # MariaDB lower-cases the name, and not the rule.
            why = f"upper and lower case differ from {name!r}"
            cure = "Write the name as in the set" if is_wild else f"Write {_option(_with_value(rule, name))}"
            return Item(Code.CASE, (rule,), f"{missing}: {why}", cure, events=shown(event))
    close = closest(value, known)
    if close is None:
        return Item(Code.NO_MATCH, (rule,), missing, "Check the name, or remove the rule")
    what, cure = f"{missing}, but {close!r} is in it", f"Did you mean {_option(_with_value(rule, close))}?"
    return Item(Code.MISSPELLED, (rule,), what, cure, events=shown(known[close]))


def _reasons(rule_filter: Filter, rule: Rule) -> Iterator[tuple[Code, str, list[Rule]]]:
    """Yield the possible reasons why a rule matches nothing, the most probable first. Each reason is a code, a text,
    and a list of the rules that were probably meant.
    """
    kind, value = rule.kind, _value(rule)
    is_wild = kind.form is ValueForm.WILD_TABLE
    parts = [part.strip(_QUOTES) for part in value.split(",")]
    if len(parts) > 1 and any(parts):
        yield Code.COMMA, _COMMA, [_with_value(rule, part) for part in parts if part]
    plain = "".join(character for character in value if character not in _QUOTES).rstrip(";")
    if plain != value:
        yield Code.QUOTES, "quotes and spaces belong to the name", [_with_value(rule, plain)]
    database, dot, table = value.partition(".")
    new = rule_filter.rewrite_db(database)
    if new != database and kind is not RuleKind.REWRITE_DB:
        why = f"rewrite rules rename {database!r} to {new!r} before this rule is asked, so that it matches nothing"
        yield Code.RENAMED, why, [_with_value(rule, new + dot + table)]
    if kind in _OF_TABLES and dot:
        why = "this rule is about databases"
        yield Code.WRONG_KIND, why, [Rule(_OF_TABLES[kind], value)]
        yield Code.WRONG_KIND, why, [_with_value(rule, database), Rule(_WITH_PATTERNS[kind], value)]
    pattern = value.replace("*", "%")
    if is_wild and pattern != value:
        yield Code.WILDCARD, "a star is no wildcard", [Rule(kind, pattern)]
    if not is_wild and "\\" in value:
        why = "this kind of rule has no escapes, so that the backslash belongs to the name"
        yield Code.ESCAPE, why, [_with_value(rule, value.replace("\\", ""))]
    if kind in _WITH_PATTERNS and ({"%", "*", "?"} & set(value) or ("_" in value and kind in _OF_TABLES)):
        pattern = pattern.replace("?", "_") + (".%" if kind in _OF_TABLES and not dot else "")
        yield Code.WILDCARD, "only wild rules have wildcards", [Rule(_WITH_PATTERNS[kind], pattern)]


def _unlikely(rule_filter: Filter, rule: Rule) -> Iterator[Item]:
    """Yield the fault of a rule's value that is visible without a binlog set: characters that names hardly ever
    contain.
    """
    value = _value(rule)
    is_probable = {
        Code.COMMA: True,
        Code.QUOTES: value != value.strip(_QUOTES),
        Code.WILDCARD: "*" in value or "%" in value,
    }
    for code, why, meant in _reasons(rule_filter, rule):
        if is_probable.get(code):
            yield Item(code, (rule,), why, _cure(Code.COMMA, meant))
            return


def _cure(code: Code, meant: list[Rule]) -> str:
    if code is Code.COMMA:
        return f"Did you mean {' '.join(map(_option, meant))}?"
    return f"Write {', or '.join(map(_option, meant))}"


def closest(value: str, known: Iterable[str]) -> str | None:
    """Return the name in ``known`` that ``value`` probably misspells, or None if no name is similar enough.

    The parts before and after a dot are compared separately.
    """
    parts = value.split(".")
    names = [name.split(".") for name in islice(known, _MOST_COMPARED)]
    names = [name for name in names if len(name) == len(parts)]
    for k, part in enumerate(parts):
        others = {name[k] for name in names}
        close = set(difflib.get_close_matches(part, others, max(1, len(others)), _CLOSE))
        names = [name for name in names if name[k] in close]
    return next(iter(difflib.get_close_matches(value, map(".".join, names), 1, 0)), None)


def _value(rule: Rule) -> str:
    """Return a rule's value, or the left side of a rewrite rule."""
    return rule.pair[0] if rule.kind is RuleKind.REWRITE_DB else rule.value


def _with_value(rule: Rule, value: str) -> Rule:
    """Return a copy of ``rule`` with another value, or another left side of a rewrite rule."""
    return Rule(rule.kind, f"{value}->{rule.pair[1]}" if rule.kind is RuleKind.REWRITE_DB else value)


def _option(rule: Rule) -> str:
    """Return a rule as an option to be typed in a shell. The value of a rewrite rule is quoted, because the shell would
    take the ``>`` in its arrow for a redirection.
    """
    return f"--{rule.kind.option}='{rule.value}'" if rule.kind is RuleKind.REWRITE_DB else str(rule)


def compared(rules: list[Rule], names: RuleNames) -> tuple[list[Rule], list[Item]]:
    """Divide ``rules`` into the first ones, which lint can compare in bounded time with all ``names`` (databases and
    tables) of the binlog set, and the rest. At least one rule is compared.

    Return the list of the first rules, and a list with a note for each other rule, which says that lint has not
    compared this rule. The notes have equal texts, so that they are joined into one warning.
    """
    most = max(1, _MOST_COMPARISONS // (len(names.tables) + len(names.databases) + 1))
    notes = [
        Item(
            Code.NOT_COMPARED,
            (),
            "lint has not compared all rules with all names of the set, since there are too many. Other faults of "
            "these rules may be missing: {names}",
            "Run lint with these rules alone",
            str(rule),
        )
        for rule in rules[most:]
    ]
    return rules[:most], notes


def merged_tables(rule_filter: Filter, knowledge: SetKnowledge) -> Iterator[Item]:
    """Yield a fault for tables of different databases that rewrite rules map to one table on the replica. ``knowledge``
    has the tables that lint has collected from the binlog set.
    """
    rules = few(rule for rule in rule_filter.rules if rule.kind is RuleKind.REWRITE_DB)
    if not rules:
        return
    sources: dict[Name, list[Name]] = {}
    spelled = rule_filter.names.spelled
    for name in knowledge.tables:
        if rule_filter.rows_ok(*name):
            there = spelled(*rule_filter.rewrite_table(*name))
            of_one = sources.setdefault(there, [])
            if spelled(*name) not in [spelled(*each) for each in of_one]:
                of_one.append(name)
    for found, names in sources.items():
        if len(names) > 1:
            yield Item(
                Code.MERGED,
                rules,
                "tables of several databases become one table of the replica: {names}. Their rows mix, and the "
                "replica stops at duplicate keys",
                "Drop one of the tables with an ignore rule, or rename to a database that the set does not have",
                f"{' and '.join('.'.join(name) for name in names)} become {'.'.join(found)}",
                tuple(knowledge.tables[name] for name in names[:2]),
            )


def _has_any(rule: Rule) -> bool:
    """Tell whether the value of a rule is a pattern that contains ``_``. This is the wildcard for any one character,
    unless it is escaped.
    """
    return rule.kind.form is ValueForm.WILD_TABLE and "_" in rule.value


def _underscores(rule_filter: Filter, rule: Rule, names: RuleNames) -> Iterator[Item]:
    literal = Rule(rule.kind, _ESCAPED_OR_ANY.sub(lambda found: found[1] or r"\_", rule.value))
    if literal == rule:
        return
    alone, exact = RuleAlone(rule_filter, rule), RuleAlone(rule_filter, literal)
    meant: list[Name] = []
    more: list[Name] = []
    for name in filter(alone.matches_table, names.tables):
        (meant if exact.matches_table(name) else more).append(name)
    if meant and more:
        yield Item(
            Code.UNDERSCORE,
            (rule,),
            f"'_' matches any character. The rule matches {'.'.join(meant[0])}, and {_listed(more)} too",
            f"If that is not meant, write {literal}",
            events=shown(names.tables[more[0]]),
        )


def shown(event: SetEvent | None) -> tuple[SetEvent, ...]:
    """Return ``event`` as a tuple for :attr:`Item.events`, the events that show a fault. Return an empty tuple for
    None.
    """
    return () if event is None else (event,)


_DO = (RuleKind.DO_DB, RuleKind.DO_TABLE, RuleKind.WILD_DO_TABLE)
_TABLE_DO = (RuleKind.DO_TABLE, RuleKind.WILD_DO_TABLE)
_BY_DATABASE = (Step.NO_DO_DB, Step.IGNORE_DB)
Decisions = dict[Subject, Decision]
"""A filter's decision about each table and statement of a binlog set."""


def _unasked(rule_filter: Filter, names: RuleNames) -> Iterator[Item]:
    do_rules = [rule for rule in rule_filter.rules if rule.kind is RuleKind.DO_DB]
    if not do_rules:
        return
    for rule in rule_filter.rules:
        if rule.kind is not RuleKind.IGNORE_DB:
            continue
        yield Item(
            Code.NOT_ASKED,
            (rule, *few(do_rules)),
            "with a do-db rule the server asks no ignore-db rule",
            f"Remove {rule}",
            events=shown(names.databases.get(rule.value)),
        )


def _preceded(rule_filter: Filter, rule: Rule, names: RuleNames) -> Iterator[Item]:
    """Yield the fault of ``rule``, a table rule of ``rule_filter``, if it matches tables of the binlog set but never
    decides, because another rule decides first. ``names`` has the set's names as the rules see them.
    """
    alone = RuleAlone(rule_filter, rule)
    matched = [name for name in names.tables if alone.matches_table(name)]
    if not matched:
        return
    # The names are those after rewriting, so that the filter must not rewrite them again.
    asked = Filter(
        [each for each in rule_filter.rules if each.kind is not RuleKind.REWRITE_DB], names=rule_filter.names
    )
    decisions = {name: asked.decide(TableSubject(*name)) for name in matched}
    if all(decision.step in _BY_DATABASE for decision in decisions.values()):
        if rule.kind in _TABLE_DO:
            yield _blocked(rule_filter, rule, matched, names)
        return
    earlier = dict.fromkeys(decision.rule for decision in decisions.values() if decision.rule is not None)
    if rule.kind in _DO:
        others = [each for each in earlier if each.kind not in _DO]
        cure = f"Remove {others[0]}, or {rule}" if others else ""
    else:
        others = [each for each in earlier if each.kind in _TABLE_DO]
        cure = (
            "Use rules that do not match the same tables. The order is do-table, ignore-table, wild-do-table, "
            "wild-ignore-table"
        )
    if others:
        yield Item(
            Code.NOT_ASKED,
            (rule, *few(others)),
            f"{_listed(matched)} matches {others[0]} first, and the first match decides",
            cure,
            events=shown(names.tables[matched[0]]),
        )


def _blocked(rule_filter: Filter, rule: Rule, matched: list[Name], names: RuleNames) -> Item:
    others = [each for each in rule_filter.rules if each.kind.form is ValueForm.DATABASE]
    databases = list(dict.fromkeys(database for database, _ in matched))
    if do_rules := [each for each in others if each.kind is RuleKind.DO_DB]:
        others, cure = do_rules, f"Add --{RuleKind.DO_DB.option}={databases[0]}"
    else:
        others = [each for each in others if each.value in databases] or others
        cure = f"Remove {others[0]}, or {rule}"
    return Item(
        Code.BLOCKED,
        (rule, *few(others)),
        f"database rules drop the rows of {_listed(matched)} before a table rule is asked",
        cure,
        events=shown(names.tables[matched[0]]),
    )


def _nothing_passes(rule_filter: Filter, knowledge: SetKnowledge, decisions: Decisions) -> Iterator[Item]:
    # The names of tables alone do not count, since a dropped statement may name a table whose rows would pass.
    subjects = list(dict.fromkeys(event.subject for event in knowledge.events))
    asked = [subjects[number] for number in numbers_on_tables(subjects)]
    if not asked or not knowledge.is_whole or any(decisions[each].verdict.passes for each in asked):
        return
    rules = [rule for rule in rule_filter.rules if rule.kind is not RuleKind.REWRITE_DB]
    yield Item(
        Code.NOTHING_PASSES,
        few(rules),
        "no row and no statement on a table passes",
        "Check the names in the rules",
        events=tuple(event for event in knowledge.events if event.subject == asked[0])[:1],
    )


def _listed(names: list[Name]) -> str:
    return listed([".".join(name) for name in names])
