"""The comparison of two classic filters: whether one of them passes something that the other one drops.

:func:`passes_beyond` walks over all names of databases and tables at once. A name is a word, and each rule is a small
automaton. The walk keeps the states of all automata of both filters together and visits every combination that some
name reaches. A combination in which the first filter passes and the second one drops is a difference, and the word
that leads to it is an example. Without such a combination there is no difference, for any name.

Statements are compared by the same combinations. The server walks a statement's tables up to the first that matches a
rule. So the pairs of answers that single tables can have decide which pairs a list of tables can have.
"""

from __future__ import annotations

import enum
import functools
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from dumpfilter.binlog.format import NameCollation, NameRules
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.collation import collation_of
from dumpfilter.filter.decision import Decision
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Rule, RuleKind
from dumpfilter.statement import Statement, StatementKind, TableLists, TableName

MOST_STATES = 10_000
"""The most combinations of states that a comparison visits, which take about a second."""
_MOST_PATTERN_BITS = 20_000
_MOST_REMEMBERED = 256
"""The most results of comparisons that are remembered."""

S = TypeVar("S", bound=Hashable)

_DOT = "."
_LARGEST_CHARACTER = 0x10000
_LETTERS = range(ord("a"), ord("z") + 1)


class Beyond(enum.Enum):
    """The answers to the question whether a filter passes something that another filter drops."""

    NOTHING = "nothing"
    """The filter passes nothing that the other one drops."""
    SOMETHING = "something"
    UNKNOWN = "unknown"
    """The filters cannot be compared: they have different semantics or too many rules."""


@dataclass(frozen=True)
class Difference:
    """The result of a comparison, with an example for a difference."""

    beyond: Beyond
    example: str = ""
    """An event that the first filter passes and the second one drops, such as ``rows of shop.orders``."""
    rule: Rule | None = None
    """The rule by which the second filter drops the example. None: no rule keeps the example."""


_NOTHING, _UNKNOWN = Difference(Beyond.NOTHING), Difference(Beyond.UNKNOWN)


def passes_beyond(one: ReplicationFilter, other: ReplicationFilter) -> Difference:
    """Tell whether ``one`` passes rows or statements that ``other`` drops.

    >>> shop = Filter.from_options(["--replicate-do-db=shop"])
    >>> both = Filter.from_options(["--replicate-do-db=shop", "--replicate-do-db=hr"])
    >>> passes_beyond(both, shop).example, passes_beyond(shop, both).beyond.value
    ("statements with the current database 'hr'", 'nothing')
    """
    if not other.is_on or (
        type(one) is type(other) and one.rules == other.rules and one.names == other.names
    ):
        return _NOTHING
    if not isinstance(one, Filter) or not isinstance(other, Filter) or one.names != other.names:
        return _UNKNOWN
    if _ordered(one) == _ordered(other):
        return _NOTHING
    return _compared(one.rules, other.rules, one.names)


def _ordered(side: Filter) -> tuple[frozenset[Rule], tuple[Rule, ...]]:
    """Return the rules so that equal filters have equal ones. Only the order of rewrite rules counts."""
    return frozenset(side.rules), tuple(rule for rule in side.rules if rule.kind is RuleKind.REWRITE_DB)


@functools.lru_cache(_MOST_REMEMBERED)
def _compared(one: tuple[Rule, ...], other: tuple[Rule, ...], names: NameRules) -> Difference:
    # A master compares the same two filters again and again, each time that it looks at a replica.
    try:
        return _Comparison(Filter(one, names=names), Filter(other, names=names)).result()
    except _TooManyError:
        return _UNKNOWN


class _TooManyError(Exception):
    """Raised when a comparison would take too long."""


class _Alphabet:
    """The characters that rules tell apart. All other characters of names are like one of these."""

    def __init__(self, names: NameRules, rules: Iterable[Rule]) -> None:
        self.names = names
        self._collation = collation_of(names)
        self.is_bytes = names.family == "mysql" and not names.lower_case_table_names
        self._lengths_count = names.family == "mariadb" and names.collation is NameCollation.GENERAL_CI
        texts = [text for rule in rules for text in (rule.pair if rule.kind.is_rewrite else (rule.value,))]
        used = {character for text in texts for character in self.units(text)} | {_DOT}
        if names.family == "mariadb" and not all(map(str.isascii, used)):
            # Names that compare as equal may have other lengths in bytes, on which some of MariaDB's rules depend.
            raise _TooManyError
        self._used = used | {self.rule_key(c) for c in used}
        self._weights = {self._collation.unit(c) for c in self._used}
        self.symbols = self._representatives()

    def units(self, text: str) -> str:
        """Return a name with one character for each unit that the wildcard ``_`` matches."""
        return self._collation.units(text)

    def unit(self, character: str) -> str:
        return self._collation.unit(character)

    def symbol(self, character: str) -> Hashable:
        """Return what the rules can tell about a character."""
        weight, key = self._collation.unit(character), self.key(character)
        return (
            weight if weight in self._weights else None,
            key if key in self._used else None,
            self.is_plain(character),
        )

    def is_plain(self, character: str) -> bool:
        """Tell whether a character matches an equal one of an ASCII rule for a table in MariaDB before 11.5."""
        return not self._lengths_count or character.isascii()

    def key(self, character: str) -> str:
        """Return the key of a name's character for database rules."""
        return _single(self._collation.database(character), character)

    def rule_key(self, character: str) -> str:
        """Return the key of a character in a database rule."""
        return _single(self._collation.database_rule(character), character)

    def _representatives(self) -> tuple[str, ...]:
        """Return one character for each set of characters that the rules cannot tell apart."""
        if self.is_bytes:
            others = (chr(number) for number in (*_LETTERS, *range(1, 256)))
            unlike = next((character for character in others if character not in self._used), "")
            return tuple(sorted({unlike, *self._used} - {""}, key=_letters_first))
        found: dict[Hashable, str] = {}
        like = _characters_like(self.names)
        alike = {other for key in (*self._used, *self._weights) for other in like.get(key, ())}
        outside = map(chr, (*_LETTERS, *range(0x100, 0x250)))
        for character in (*sorted(self._used), *sorted(alike), *outside):
            found.setdefault(self.symbol(character), character)
        return tuple(sorted(found.values(), key=_letters_first))


def _letters_first(character: str) -> tuple[bool, bool, str]:
    return not character.isalnum(), not character.isascii(), character


def _single(key: Hashable, character: str) -> str:
    """Return a character's key if the key is one character, else the character."""
    return key if isinstance(key, str) and len(key) == 1 else character


@functools.cache
def _characters_like(names: NameRules) -> dict[str, list[str]]:
    """Return the characters of names by their weight, and by their key in database rules."""
    collation = collation_of(names)
    like: dict[str, list[str]] = {}
    for number in (*range(1, 0xD800), *range(0xE000, _LARGEST_CHARACTER)):
        character = chr(number)
        weight, key = collation.unit(character), collation.database(character)
        if weight != character:
            like.setdefault(weight, []).append(character)
        if isinstance(key, str) and key != character:
            like.setdefault(key, []).append(character)
    return like


class _Patterns:
    """LIKE patterns or plain names that are matched with a word character by character, in the bits of one integer.

    The bit of a position is set when the text up to the position matches the word so far.
    """

    def __init__(
        self, alphabet: _Alphabet, patterns: Iterable[str], *, wild: bool, by_key: bool = False
    ) -> None:
        self._alphabet = alphabet
        self._tokens: list[str | None] = []
        self._plain_only = not wild and not by_key
        self._by_key = by_key
        self.start = self._loops = self._ends = 0
        self._is_token: list[bool] = []
        for pattern in patterns:
            self._add(alphabet.units(pattern), wild)
        if len(self._tokens) > _MOST_PATTERN_BITS:
            raise _TooManyError
        self._masks: dict[str, int] = {}

    def _add(self, pattern: str, wild: bool) -> None:
        self.start |= 1 << len(self._tokens)
        characters = iter(pattern)
        for character in characters:
            if wild and character == "%":
                self._loops |= 1 << len(self._tokens)
            elif wild and character == "_":
                self._push(None)
            elif wild and character == "\\":
                self._push(next(characters, "\\"))
            else:
                self._push(character)
        self._ends |= 1 << len(self._tokens)
        self._tokens.append(None)
        self._is_token.append(False)

    def _push(self, token: str | None) -> None:
        self._tokens.append(token)
        self._is_token.append(True)

    def step(self, state: int, character: str) -> int:
        """Return the state after one more character of the word."""
        if not state:
            return 0
        return ((state & self._mask(character)) << 1) | (state & self._loops)

    def _mask(self, character: str) -> int:
        mask = self._masks.get(character)
        if mask is None:
            mask = 0
            for number, token in enumerate(self._tokens):
                if self._is_token[number] and self._matches(token, character):
                    mask |= 1 << number
            self._masks[character] = mask
        return mask

    def _matches(self, token: str | None, character: str) -> bool:
        if token is None:
            return True
        if self._by_key:
            return self._alphabet.rule_key(token) == self._alphabet.key(character)
        if self._plain_only and not self._alphabet.is_plain(character):
            return False
        return self._alphabet.unit(token) == self._alphabet.unit(character)

    def matches(self, state: int) -> bool:
        """Tell whether a pattern matches the whole word."""
        return bool(state & self._ends)


class _TableState(NamedTuple):
    """The states of a filter's four sorts of table rules after a part of the word ``db.table``."""

    do: int
    ignore: int
    wild_do: int
    wild_ignore: int


class _SideState(NamedTuple):
    """The states of all rules of a filter after a part of a database's name."""

    do_db: int
    ignore_db: int
    tables: _TableState


class _Answer(enum.Enum):
    """A filter's answer about a single table: the sort of the first rule that matches the table."""

    DO = 1
    IGNORE = 2
    NONE = 3


_Both = tuple[_TableState, _TableState]
_Answers = tuple[_Answer, _Answer]


class _Side:
    """One of the two filters, with automata for its rules."""

    def __init__(self, rule_filter: Filter, alphabet: _Alphabet) -> None:
        self.filter = rule_filter
        self._alphabet = alphabet

        def values(kind: RuleKind) -> list[str]:
            return [rule.value for rule in rule_filter.rules if rule.kind is kind]

        self._tables = (
            _Patterns(alphabet, values(RuleKind.DO_TABLE), wild=False),
            _Patterns(alphabet, values(RuleKind.IGNORE_TABLE), wild=False),
            _Patterns(alphabet, values(RuleKind.WILD_DO_TABLE), wild=True),
            _Patterns(alphabet, values(RuleKind.WILD_IGNORE_TABLE), wild=True),
        )
        self._do_db = _Patterns(alphabet, values(RuleKind.DO_DB), wild=False, by_key=True)
        self._ignore_db = _Patterns(alphabet, values(RuleKind.IGNORE_DB), wild=False, by_key=True)
        self._has_do_db = bool(values(RuleKind.DO_DB))
        self._has_do = bool(values(RuleKind.DO_TABLE) or values(RuleKind.WILD_DO_TABLE))
        self._has_wild_do = bool(values(RuleKind.WILD_DO_TABLE))
        self._has_wild = self._has_wild_do or bool(values(RuleKind.WILD_IGNORE_TABLE))
        tables = _TableState(*(patterns.start for patterns in self._tables))
        self.start = _SideState(self._do_db.start, self._ignore_db.start, tables)

    def step(self, state: _SideState, character: str) -> _SideState:
        """Return the state after one more character of a database's name."""
        return _SideState(
            self._do_db.step(state.do_db, character),
            self._ignore_db.step(state.ignore_db, character),
            self.step_table(state.tables, character),
        )

    def step_table(self, state: _TableState, character: str) -> _TableState:
        """Return the state of the table rules after one more character of ``db.table``."""
        return _TableState(
            *(patterns.step(one, character) for patterns, one in zip(self._tables, state, strict=True))
        )

    def after(self, text: str) -> _TableState:
        """Return the state of the table rules after a text."""
        state = self.start.tables
        for character in self._alphabet.units(text):
            state = self.step_table(state, character)
        return state

    def db_passes(self, state: _SideState) -> bool:
        """Tell whether the do-db and ignore-db rules pass the database whose name led to the state."""
        if self._has_do_db:
            return self._do_db.matches(state.do_db)
        return not self._ignore_db.matches(state.ignore_db)

    def answer(self, state: _TableState) -> _Answer:
        """Return the answer about the table whose name led to the state."""
        do, ignore, wild_do, wild_ignore = self._matches(state)
        if do or (wild_do and not ignore):
            return _Answer.DO
        return _Answer.IGNORE if ignore or wild_ignore else _Answer.NONE

    def passes(self, answer: _Answer) -> bool:
        """Tell whether a list of tables passes whose first table that matches a rule has this answer."""
        if not self.filter.table_rules_on or answer is _Answer.DO:
            return True
        return answer is _Answer.NONE and not self._has_do

    def create_passes(self, db_passes: bool, state: _TableState) -> bool:
        """Tell whether CREATE DATABASE passes, from the answer of the database rules and the state after ``db.``."""
        if not db_passes or not self._has_wild:
            return db_passes
        if self.filter.names.family == "mysql" and self.filter.db_rules_on:
            return True
        _, _, wild_do, wild_ignore = self._matches(state)
        return wild_do or (not wild_ignore and not self._has_wild_do)

    def _matches(self, state: _TableState) -> list[bool]:
        return [patterns.matches(one) for patterns, one in zip(self._tables, state, strict=True)]


class _Database(NamedTuple):
    """A database as an example, with what both filters know after its name and the dot behind it."""

    name: str
    passes: tuple[bool, bool]
    """Whether the database rules of both filters pass the database."""
    states: _Both
    is_renamed: bool
    """Whether a rewrite rule renames the database, when it is the current one or has the rows."""


@dataclass(frozen=True)
class _Event:
    """An event that may tell the two filters apart: a statement, or rows of a table."""

    text: str
    statement: Statement | None = None
    rows: tuple[str, str] = ("", "")

    def decide(self, rule_filter: Filter) -> Decision:
        if self.statement is not None:
            return rule_filter.decide_statement(self.statement)
        return rule_filter.decide_rows(*self.rows)


class _Comparison:
    """One comparison of two filters that compare names alike."""

    def __init__(self, one: Filter, other: Filter) -> None:
        self._alphabet = _Alphabet(one.names, (*one.rules, *other.rules))
        self._one, self._other = _Side(one, self._alphabet), _Side(other, self._alphabet)
        rewrites = [rule for rule in (*one.rules, *other.rules) if rule.kind is RuleKind.REWRITE_DB]
        self._sources = sorted({rule.pair[0] for rule in rewrites})
        self._renamed = _Patterns(self._alphabet, self._sources, wild=False, by_key=True)
        self._tables_after: dict[_Both, list[tuple[str, _Answers]]] = {}
        self._visited = 0

    def result(self) -> Difference:
        """Return the difference, with an example that both filters confirm."""
        found = list(self._differences())
        # Names with dots are rare, and an example should look familiar.
        for event in sorted(found, key=lambda event: ".." in event.text or " ." in event.text):
            decision = event.decide(self._other.filter)
            is_real = event.text.isprintable() and event.decide(self._one.filter).verdict.passes
            if is_real and not decision.verdict.passes:
                return Difference(Beyond.SOMETHING, event.text, decision.rule)
        # No real name may spell the words that led to the difference, such as bytes that are no text.
        return _UNKNOWN if found else _NOTHING

    def _differences(self) -> Iterator[_Event]:
        """Yield events that the first filter passes and the second one drops, by the states of their rules."""
        named = list(self._named())
        current = [*(db for db in named if not db.is_renamed), *self._rewritten()]
        for db in current:
            if db.passes == (True, False):
                yield _Event(
                    f"statements with the current database {db.name!r}", _statement(db.name, updated=())
                )
        for db in current:
            if db.name and db.passes[0]:
                yield from self._rows(db)
        sessions = [db for db in current if db.passes == (True, True)]
        written = self._pairs(db for db in named if db.name)
        for session in sessions[:1] + [one for one in sessions[1:] if one.is_renamed]:
            # A table without a database in front belongs to the current one, after the rewrite rules.
            own = {answers: TableName(None, table) for answers, table in self._own(session)}
            yield from self._lists(own | written, session)
            created = current if self._one.filter.names.family == "mysql" else named
            for db in created:
                if db.name and self._creates(self._one, db, 0) and not self._creates(self._other, db, 1):
                    statement = _statement(session.name, StatementKind.CREATE_DATABASE, db.name)
                    yield _Event(f"CREATE DATABASE {db.name}", statement)

    def _rows(self, db: _Database) -> Iterator[_Event]:
        for table, answers in self._tables(db.states):
            kept = db.passes[1] and self._other.passes(answers[1])
            if self._one.passes(answers[0]) and not kept:
                yield _Event(f"rows of {db.name}.{table}", rows=(db.name, table))

    def _pairs(self, databases: Iterable[_Database]) -> dict[_Answers, TableName]:
        """Return an example for each pair of answers that tables with a database in front can have."""
        pairs: dict[_Answers, TableName] = {}
        for db in databases:
            for table, answers in self._tables(db.states):
                pairs.setdefault(answers, TableName(db.name, table))
        return pairs

    def _own(self, session: _Database) -> Iterator[tuple[_Answers, str]]:
        if session.is_renamed:
            for table, answers in self._tables(session.states):
                yield answers, table

    def _creates(self, side: _Side, db: _Database, number: int) -> bool:
        return side.create_passes(db.passes[number], db.states[number])

    def _lists(self, pairs: Mapping[_Answers, TableName], session: _Database) -> Iterator[_Event]:
        """Yield statements with one or more tables that the first filter passes and the second one drops."""
        paths: dict[_Answers, tuple[TableName, ...]] = {}
        waiting: deque[tuple[_Answers, tuple[TableName, ...]]] = deque([((_Answer.NONE, _Answer.NONE), ())])
        while waiting:
            state, path = waiting.popleft()
            for answers, table in pairs.items():
                after = _first(state[0], answers[0]), _first(state[1], answers[1])
                if after not in paths:
                    paths[after] = (*path, table)
                    waiting.append((after, paths[after]))
        for answers, tables in paths.items():
            if self._one.passes(answers[0]) and not self._other.passes(answers[1]):
                shown = ", ".join(f"{table.database or session.name}.{table.table}" for table in tables)
                statement = _statement(session.name, updated=(tables,))
                yield _Event(f"statements that update {shown}", statement)

    def _named(self) -> Iterator[_Database]:
        """Yield one example of the names of databases for each combination of states that names lead to."""
        one, other, renamed = self._one, self._other, self._renamed

        def step(
            state: tuple[_SideState, _SideState, int], character: str
        ) -> tuple[_SideState, _SideState, int]:
            return (
                one.step(state[0], character),
                other.step(state[1], character),
                renamed.step(state[2], character),
            )

        told = set()
        for state, word in self._explore((one.start, other.start, renamed.start), step):
            database = _Database(
                word,
                (one.db_passes(state[0]), other.db_passes(state[1])),
                (one.step_table(state[0].tables, _DOT), other.step_table(state[1].tables, _DOT)),
                renamed.matches(state[2]),
            )
            if (bool(word), database[1:]) not in told:
                told.add((bool(word), database[1:]))
                yield database

    def _rewritten(self) -> Iterator[_Database]:
        """Yield the databases that a rewrite rule of one of the filters renames."""
        one, other = self._one, self._other
        for source in self._sources:
            names = one.filter.rewrite_db(source), other.filter.rewrite_db(source)
            yield _Database(
                source,
                (one.filter.db_ok(names[0]), other.filter.db_ok(names[1])),
                (one.after(f"{names[0]}."), other.after(f"{names[1]}.")),
                True,
            )

    def _tables(self, start: _Both) -> list[tuple[str, _Answers]]:
        """Return one example of a table for each pair of answers that tables of a database can have."""
        found = self._tables_after.get(start)
        if found is None:
            one, other = self._one, self._other

            def step(states: _Both, character: str) -> _Both:
                return one.step_table(states[0], character), other.step_table(states[1], character)

            pairs: dict[_Answers, str] = {}
            for character in self._alphabet.symbols:
                # A table's name has at least one character.
                for states, word in self._explore(step(start, character), step):
                    answers = one.answer(states[0]), other.answer(states[1])
                    pairs.setdefault(answers, self._text(character) + word)
            found = self._tables_after[start] = [(table, answers) for answers, table in pairs.items()]
        return found

    def _explore(self, start: S, step: Callable[[S, str], S]) -> Iterator[tuple[S, str]]:
        """Yield each state that words lead to, with a shortest word. Raises _TooManyError for too many states."""
        known = {start}
        waiting = deque([(start, "")])
        while waiting:
            state, word = waiting.popleft()
            yield state, self._text(word)
            for character in self._alphabet.symbols:
                after = step(state, character)
                if after not in known:
                    self._visited += 1
                    if self._visited > MOST_STATES:
                        raise _TooManyError
                    known.add(after)
                    waiting.append((after, word + character))

    def _text(self, word: str) -> str:
        """Return the name whose units are the characters of a word."""
        return word.encode("latin-1").decode("utf-8", "surrogateescape") if self._alphabet.is_bytes else word


def _first(answer: _Answer, following: _Answer) -> _Answer:
    return following if answer is _Answer.NONE else answer


def _statement(
    current: str,
    kind: StatementKind = StatementKind.UPDATE,
    database: str | None = None,
    *,
    updated: TableLists = (),
) -> Statement:
    return Statement(kind, current or None, database, updated=updated)
