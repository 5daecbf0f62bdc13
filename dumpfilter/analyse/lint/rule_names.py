"""The names in rules: rules that match nothing in the set, with the probable reason, and rules that match too much."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from dumpfilter.analyse.lint.findings import Code
from dumpfilter.analyse.lint.items import Item, few, listed
from dumpfilter.analyse.lint.knowledge import SetEvent, SetKnowledge
from dumpfilter.filter import Filter, ReplicationFilter, Rule, RuleKind
from dumpfilter.filter.rules import ValueForm

Name = tuple[str, str]

_CLOSE = 0.75
"""How alike two names are (0 to 1, difflib's ratio) when lint takes one of them for a misspelling of the other."""

_MOST_COMPARED = 5000
"""The most names of the set that lint compares with a rule, to find a misspelling."""

_MOST_COMPARISONS = 500_000
"""The most comparisons of a rule with a name of the set. Later rules of a filter are left out."""

_QUOTES = "'\"`´‘’“” \t"
_WILD_KINDS = {RuleKind.DO_TABLE: RuleKind.WILD_DO_TABLE, RuleKind.IGNORE_TABLE: RuleKind.WILD_IGNORE_TABLE}
_TABLE_KINDS = {RuleKind.DO_DB: RuleKind.DO_TABLE, RuleKind.IGNORE_DB: RuleKind.IGNORE_TABLE}
_WILD_OF_DATABASE = {RuleKind.DO_DB: RuleKind.WILD_DO_TABLE, RuleKind.IGNORE_DB: RuleKind.WILD_IGNORE_TABLE}


@dataclass(frozen=True)
class RuleNames:
    """The names of a set as a filter's rules see them, after rewriting."""

    databases: dict[str, SetEvent]
    tables: dict[Name, SetEvent]
    sources: dict[str, SetEvent]
    """The databases before rewriting."""


class RuleAlone:
    """One rule of a filter, which is asked about names as if it were the only rule."""

    def __init__(self, rule_filter: Filter, rule: Rule) -> None:
        self._filter = Filter([rule], names=rule_filter.names)
        self._kind = rule.kind
        self._passes = rule.kind in (RuleKind.DO_DB, RuleKind.DO_TABLE, RuleKind.WILD_DO_TABLE)
        """The answer of the filter for a name that matches the rule."""

    def matches_table(self, name: Name) -> bool:
        """Tell whether a rule about tables matches a table, or a rule about databases its database."""
        if self._kind.form is ValueForm.DATABASE:
            return self.matches_database(name[0])
        return self._kind.form in _TABLE_FORMS and self._filter.tables_ok([name]) is self._passes

    def matches_database(self, name: str) -> bool:
        """Tell whether the rule matches a database. A wild rule is compared as for CREATE DATABASE."""
        if self._kind.form is ValueForm.DATABASE:
            return self._filter.db_ok(name) is self._passes
        is_wild = self._kind.form is ValueForm.WILD_TABLE
        return is_wild and self._filter.db_ok_with_wild_table(name) is self._passes

    def renames(self, source: str) -> bool:
        """Tell whether a rewrite rule renames a database of the source."""
        return self._filter.rewrite_db(source) != source

    def matches_any(self, names: RuleNames) -> bool:
        """Tell whether the rule matches any name of the set."""
        if self._kind is RuleKind.REWRITE_DB:
            return any(map(self.renames, names.sources))
        if self._kind.form is not ValueForm.TABLE and any(map(self.matches_database, names.databases)):
            return True
        return self._kind.form in _TABLE_FORMS and any(map(self.matches_table, names.tables))


_TABLE_FORMS = (ValueForm.TABLE, ValueForm.WILD_TABLE)


def odd_names(
    rule_filter: Filter, knowledge: SetKnowledge, names: RuleNames, deciding: set[Rule | None]
) -> Iterator[Item]:
    """Yield the faults in the names of a classic filter's rules.

    The rules ``deciding`` decide something in the set. When only a part of the set is known, a rule without a match is
    a fault only if its value is no likely name.
    """
    unused = [rule for rule in rule_filter.rules if rule not in deciding]
    yield from not_compared(unused, names)
    for rule in compared(unused, names):
        if not RuleAlone(rule_filter, rule).matches_any(names):
            if knowledge.is_whole and names.databases:
                yield _no_match(rule_filter, rule, names)
            elif not knowledge.is_whole:
                yield from _unlikely(rule)
    wild = [
        rule for rule in rule_filter.rules if rule.kind.form is ValueForm.WILD_TABLE and "_" in rule.value
    ]
    yield from not_compared(wild, names)
    for rule in compared(wild, names):
        yield from _underscores(rule_filter, rule, names)


def names_of(rule_filter: Filter, knowledge: SetKnowledge) -> RuleNames:
    """Return the names of a set as the rules of a filter see them."""
    databases: dict[str, SetEvent] = {}
    tables: dict[Name, SetEvent] = {}
    sources: dict[str, SetEvent] = {}
    for database, event in knowledge.databases.items():
        sources[database] = event
        databases.setdefault(rule_filter.rewrite_db(database), event)
    for (database, table), event in knowledge.tables.items():
        tables.setdefault((rule_filter.rewrite_db(database), table), event)
    return RuleNames(databases, tables, sources)


def _no_match(rule_filter: Filter, rule: Rule, names: RuleNames) -> Item:
    value = rule.pair[0] if rule.kind is RuleKind.REWRITE_DB else rule.value
    about_databases = rule.kind.form is not ValueForm.TABLE and rule.kind.form is not ValueForm.WILD_TABLE
    known: dict[str, SetEvent]
    if rule.kind is RuleKind.REWRITE_DB:
        known = names.sources
    elif about_databases:
        known = names.databases
    else:
        known = {f"{database}.{table}": event for (database, table), event in names.tables.items()}
    missing = f"{'no database' if about_databases else 'no table'} {value!r} in this set"
    for find in (_comma, _quotes, _renamed, _kind, _escape, _wildcard, _case):
        found = find(rule_filter, rule, value, known, names)
        if found is not None:
            code, why, cure, event = found
            what = why if code is Code.RENAMED else f"{missing}: {why}"
            return Item(code, (rule,), what, cure, events=_shown(event))
    close = closest(value, known)
    if close is not None:
        cure = f"Did you mean {_option(rule, close)}?"
        return Item(
            Code.MISSPELLED, (rule,), f"{missing}, but {close!r} is in it", cure, events=_shown(known[close])
        )
    return Item(Code.NO_MATCH, (rule,), missing, "Check the name, or remove the rule")


def _unlikely(rule: Rule) -> Iterator[Item]:
    """Yield the faults of a rule's value that show without a set: characters that hardly any name has."""
    value = rule.value
    is_wild = rule.kind.form is ValueForm.WILD_TABLE
    if "," in value:
        options = " ".join(
            _option(rule, part.strip(_QUOTES)) for part in value.split(",") if part.strip(_QUOTES)
        )
        what, cure = "a comma does not separate names, but belongs to the name", f"Did you mean {options}?"
        yield Item(Code.COMMA, (rule,), what, cure)
    elif value != value.strip(_QUOTES):
        what = "quotes and spaces belong to the name"
        yield Item(Code.QUOTES, (rule,), what, f"Did you mean {_option(rule, value.strip(_QUOTES))}?")
    elif "*" in value or ("%" in value and not is_wild and rule.kind is not RuleKind.REWRITE_DB):
        what = "a star is no wildcard" if is_wild else "only wild rules have wildcards"
        kind = _WILD_KINDS.get(rule.kind) or _WILD_OF_DATABASE.get(rule.kind)  # type: ignore[call-overload]
        pattern = value.replace("*", "%") if "." in value else f"{value.replace('*', '%')}.%"
        cure = f"Did you mean --{(kind or rule.kind).option}={pattern}?"
        yield Item(Code.WILDCARD, (rule,), what, cure)


_Found = tuple[Code, str, str, SetEvent | None] | None


def _comma(
    rule_filter: Filter, rule: Rule, value: str, known: dict[str, SetEvent], names: RuleNames
) -> _Found:
    parts = [part.strip(_QUOTES) for part in value.split(",")]
    options = " ".join(_option(rule, part) for part in parts if part)
    if len(parts) < 2 or not options:
        return None
    event = next((known[part] for part in parts if part in known), None)
    return Code.COMMA, "a comma does not separate names", f"Did you mean {options}?", event


def _quotes(
    rule_filter: Filter, rule: Rule, value: str, known: dict[str, SetEvent], names: RuleNames
) -> _Found:
    plain = "".join(character for character in value if character not in _QUOTES)
    plain = plain.rstrip(";")
    if plain == value or not _is_known(rule_filter, rule, plain, known, names):
        return None
    return (
        Code.QUOTES,
        "quotes and spaces belong to the name",
        f"Write {_option(rule, plain)}",
        known.get(plain),
    )


def _renamed(
    rule_filter: Filter, rule: Rule, value: str, known: dict[str, SetEvent], names: RuleNames
) -> _Found:
    if rule.kind is RuleKind.REWRITE_DB:
        return None
    database, dot, table = value.partition(".")
    new = rule_filter.rewrite_db(database)
    if new == database:
        return None
    why = (
        f"rewrite rules rename {database!r} to {new!r} before this rule is asked, so that it matches nothing"
    )
    return Code.RENAMED, why, f"Write {_option(rule, new + dot + table)}", names.sources.get(database)


def _kind(
    rule_filter: Filter, rule: Rule, value: str, known: dict[str, SetEvent], names: RuleNames
) -> _Found:
    kind = _TABLE_KINDS.get(rule.kind)  # type: ignore[call-overload]
    database, dot, table = value.partition(".")
    if kind is None or not dot:
        return None
    if (database, table) in names.tables:
        cure = f"Write --{kind.option}={value}"
        return Code.WRONG_KIND, "this rule is about databases", cure, names.tables[database, table]
    if database in names.databases:
        cure = f"Write {_option(rule, database)}, or --{_WILD_OF_DATABASE[rule.kind].option}={value}"  # type: ignore[index]
        return Code.WRONG_KIND, "this rule is about databases", cure, names.databases[database]
    return None


def _wildcard(
    rule_filter: Filter, rule: Rule, value: str, known: dict[str, SetEvent], names: RuleNames
) -> _Found:
    if rule.kind.form is ValueForm.WILD_TABLE or not ({"%", "_", "*", "?"} & set(value)):
        return None
    pattern = value.replace("*", "%").replace("?", "_")
    kind = _WILD_KINDS.get(rule.kind)  # type: ignore[call-overload]
    if kind is None and rule.kind in _WILD_OF_DATABASE:
        kind, pattern = _WILD_OF_DATABASE[rule.kind], f"{pattern}.%"
    if kind is None or not ("%" in pattern or "?" in value):
        return None
    wild = Rule(kind, pattern)
    alone = RuleAlone(rule_filter, wild)
    event = next((event for name, event in names.tables.items() if alone.matches_table(name)), None)
    if event is None and not alone.matches_any(names):
        return None
    return Code.WILDCARD, "only wild rules have wildcards", f"Write {wild}", event


def _escape(
    rule_filter: Filter, rule: Rule, value: str, known: dict[str, SetEvent], names: RuleNames
) -> _Found:
    plain = value.replace("\\", "")
    if rule.kind.form is ValueForm.WILD_TABLE:
        if "*" not in value:
            return None
        pattern = Rule(rule.kind, value.replace("*", "%"))
        if not RuleAlone(rule_filter, pattern).matches_any(names):
            return None
        return Code.WILDCARD, "a star is no wildcard", f"Write {pattern}", None
    if plain == value or plain not in known:
        return None
    why = "this kind of rule has no escapes, so that the backslash belongs to the name"
    return Code.ESCAPE, why, f"Write {_option(rule, plain)}", known[plain]


def _case(
    rule_filter: Filter, rule: Rule, value: str, known: dict[str, SetEvent], names: RuleNames
) -> _Found:
    if rule.kind.form is ValueForm.WILD_TABLE:
        alone = RuleAlone(rule_filter, Rule(rule.kind, value.lower()))
        found = next(
            (name for name in names.tables if alone.matches_table((name[0].lower(), name[1].lower()))), None
        )
        if found is None:
            return None
        why = f"upper and lower case differ from {'.'.join(found)!r}"
        return Code.CASE, why, "Write the name as in the set", names.tables[found]
    same = next((name for name in known if name.lower() == value.lower()), None)
    if same is None:
        return None
    if rule_filter.names.lower_case_table_names and rule_filter.names.family == "mariadb":
        why = "with lower_case_table_names MariaDB lower-cases the name, and not the rule"
        return Code.CASE, why, f"Write {_option(rule, value.lower())}", known[same]
    return (
        Code.CASE,
        f"upper and lower case differ from {same!r}",
        f"Write {_option(rule, same)}",
        known[same],
    )


def _is_known(
    rule_filter: Filter, rule: Rule, value: str, known: dict[str, SetEvent], names: RuleNames
) -> bool:
    if value in known:
        return True
    if rule.kind.form in (ValueForm.TABLE, ValueForm.WILD_TABLE) and "." in value:
        return RuleAlone(rule_filter, Rule(rule.kind, value)).matches_any(names)
    return False


def closest(value: str, known: Iterable[str]) -> str | None:
    """Return the name of which ``value`` is probably a misspelling. Each side of a dot must be alike by itself."""
    best, found = _CLOSE, None
    parts = [Likeness(part) for part in value.split(".")]
    for name in islice(known, _MOST_COMPARED):
        others = name.split(".")
        if len(others) != len(parts):
            continue
        alike = 1.0
        for part, other in zip(parts, others, strict=True):
            alike = min(alike, part.with_name(other, best))
            if alike < best:
                break
        else:
            best, found = alike, name
    return found


class Likeness:
    """How alike names are to one name: difflib's ratio, found with few comparisons."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._letters = Counter(name)
        self._matcher = difflib.SequenceMatcher(None, b=name)
        """The matcher, which keeps what it has found in its second text."""
        self._bounds: dict[str, float] = {}
        self._ratios: dict[str, float] = {}

    def with_name(self, other: str, least: float) -> float:
        """Return how alike the names are, or a number below ``least`` if the names are less alike than that."""
        if other not in self._ratios:
            if self._bound(other) < least:
                return 0.0
            self._matcher.set_seq1(other)
            self._ratios[other] = self._matcher.ratio()
        return self._ratios[other]

    def _bound(self, other: str) -> float:
        """Return a number that the ratio does not exceed, from the letters of the names without their order."""
        if other not in self._bounds:
            both = len(self._name) + len(other)
            shared = min(len(self._name), len(other))
            if both and 2 * shared >= _CLOSE * both:
                shared = (self._letters & Counter(other)).total()
            self._bounds[other] = 2 * shared / both if both else 1.0
        return self._bounds[other]


def _option(rule: Rule, value: str) -> str:
    if rule.kind is RuleKind.REWRITE_DB:
        return f"--{rule.kind.option}='{value}->{rule.pair[1]}'"
    return f"--{rule.kind.option}={value}"


def compared(rules: list[Rule], names: RuleNames) -> list[Rule]:
    """Return as many of the rules as lint compares with all names of the set, to bound its time."""
    return rules[: max(1, _MOST_COMPARISONS // (len(names.tables) + len(names.databases) + 1))]


def not_compared(rules: list[Rule], names: RuleNames) -> Iterator[Item]:
    """Yield a note for each rule that :func:`compared` leaves out. They are alike, so that they become one note."""
    for rule in rules[len(compared(rules, names)) :]:
        yield Item(
            Code.NOT_COMPARED,
            (),
            "lint has not compared all rules with all names of the set, since there are too many. Other faults of "
            "these rules may be missing: {names}",
            "Run lint with these rules alone",
            str(rule),
        )


def merged_tables(rule_filter: Filter, knowledge: SetKnowledge) -> Iterator[Item]:
    """Yield the tables of different databases that rewrite rules make one table of the replica."""
    rules = few(rule for rule in rule_filter.rules if rule.kind is RuleKind.REWRITE_DB)
    if not rules:
        return
    sources: dict[Name, list[Name]] = {}
    for name in knowledge.tables:
        if rule_filter.rows_ok(*name):
            there = spelled(rule_filter, rule_filter.rewrite_table(*name))
            of_one = sources.setdefault(there, [])
            if spelled(rule_filter, name) not in [spelled(rule_filter, each) for each in of_one]:
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


def _underscores(rule_filter: Filter, rule: Rule, names: RuleNames) -> Iterator[Item]:
    literal = Rule(rule.kind, _with_literal_underscores(rule.value))
    if literal == rule:
        return
    meant: list[Name] = []
    more: list[Name] = []
    alone, exact = RuleAlone(rule_filter, rule), RuleAlone(rule_filter, literal)
    for name in names.tables:
        if alone.matches_table(name):
            (meant if exact.matches_table(name) else more).append(name)
    if meant and more:
        also = listed([".".join(name) for name in more])
        yield Item(
            Code.UNDERSCORE,
            (rule,),
            f"'_' matches any character. The rule matches {'.'.join(meant[0])}, and {also} too",
            f"If that is not meant, write {literal}",
            events=_shown(names.tables[more[0]]),
        )


def _with_literal_underscores(pattern: str) -> str:
    r"""Return a LIKE pattern in which each wildcard ``_`` is escaped.

    >>> _with_literal_underscores(r"a_b.t\_%")
    'a\\_b.t\\_%'
    """
    out, characters = [], iter(pattern)
    for character in characters:
        if character == "\\":
            out.append(character + next(characters, ""))
        else:
            out.append("\\_" if character == "_" else character)
    return "".join(out)


def _shown(event: SetEvent | None) -> tuple[SetEvent, ...]:
    return () if event is None else (event,)


def spelled(rule_filter: ReplicationFilter, name: Name) -> Name:
    """Return a table's name in lower case where the replica has lower_case_table_names, and else as it is."""
    return (name[0].lower(), name[1].lower()) if rule_filter.names.lower_case_table_names else name
