"""Hypothesis strategies for commands, and for the spellings of a command."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from hypothesis import strategies as st

from dumpfilter.console.sql.commands import Threads
from dumpfilter.console.sql.grammar import reserved
from dumpfilter.filter.rules import BaseRuleKind, EffectiveRuleKind, FilterClause, Rule, RuleKind, make_rule
from tests.console.sql.parsed import (
    ChangeBinlog,
    ChangeReplicaFilter,
    ChangeReplicationFilter,
    ChangeSource,
    Command,
    PurgeBinaryLogs,
    ResetReplica,
    ShowBinaryLogs,
    ShowBinaryLogStatus,
    ShowBinlogEvents,
    ShowReplicas,
    ShowReplicaStatus,
    StartReplica,
    StopReplica,
    Until,
)

DRAW = st.DrawFn
_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0\n")
_LINES = st.text(_CHARACTERS, max_size=8) | st.sampled_from(
    ["", "a", "x y", "it's", 'a"b', "a\\", "`", "%_", ";"]
)
_NAMES = st.text(_CHARACTERS, min_size=1, max_size=8) | st.sampled_from(
    ["a", "db1", "select", "for", "1e5", "é"]
)
_PLAIN = re.compile(r"[A-Za-z_$][0-9A-Za-z_$]*")
_CHANNELS = st.none() | _LINES.map(str.lower).filter(lambda name: name == name.lower())
_NUMBERS = st.integers(0, 2**64 - 1)
_GAPS = ["\n", "\t", " /* ; ' */ ", " -- it's\n", "# `\n", " /*!99999 x */ ", "\r\n"]


# values


@st.composite
def _rules(draw: DRAW, kind: BaseRuleKind) -> Rule:
    match kind:
        case RuleKind.DO_DB | RuleKind.IGNORE_DB:
            return make_rule(kind, draw(_NAMES))
        case RuleKind.DO_TABLE | RuleKind.IGNORE_TABLE:
            database = draw(_NAMES.filter(lambda name: "." not in name and not name.endswith(" ")))
            return make_rule(kind, f"{database}.{draw(_NAMES)}")
        case RuleKind.REWRITE_DB:
            name = _NAMES.filter(lambda name: name == name.strip())
            return make_rule(kind, f"{draw(name.filter(lambda name: '->' not in name))}->{draw(name)}")
        case EffectiveRuleKind.REWRITE:
            return make_rule(
                kind, draw(st.sampled_from(["a.%->b.%", r"a\.b.c->d.e", "x%.y->%z.w", "it's.%->a.%"]))
            )
        case _:
            return make_rule(kind, f"a.{draw(_LINES)}")


@st.composite
def _clauses(draw: DRAW, kinds: list[BaseRuleKind], *, unique: bool) -> tuple[FilterClause, ...]:
    chosen = draw(st.lists(st.sampled_from(kinds), max_size=4, min_size=0 if unique else 1, unique=unique))
    return tuple(FilterClause(kind, tuple(draw(st.lists(_rules(kind), max_size=3)))) for kind in chosen)


_TEXT_OPTIONS = ["HOST", "USER", "LOG_FILE", "BIND", "SSL_CA"]
_NUMBER_OPTIONS = ["PORT", "CONNECT_RETRY", "RETRY_COUNT", "LOG_POS"]
_IDS = st.lists(_NUMBERS, max_size=3).map(tuple)
_OPTIONS = (
    st.tuples(st.sampled_from(_TEXT_OPTIONS), _LINES)
    | st.tuples(st.sampled_from(_NUMBER_OPTIONS), _NUMBERS)
    | st.tuples(st.just("AUTO_POSITION"), st.booleans())
    | st.tuples(st.sampled_from(["IGNORE_SERVER_IDS", "DO_DOMAIN_IDS", "IGNORE_DOMAIN_IDS"]), _IDS)
    | st.tuples(st.just("HEARTBEAT_PERIOD"), st.floats(0, 4294967))
    | st.tuples(st.just("FILTER_ON"), st.sampled_from(["MASTER", "SLAVE", "BOTH"]))
    | st.tuples(st.just("USE_GTID"), st.sampled_from(["CURRENT_POS", "SLAVE_POS", "NO"]))
)


@st.composite
def _sources(draw: DRAW) -> ChangeSource:
    clauses = draw(_clauses([*RuleKind, *EffectiveRuleKind], unique=True))
    options = tuple(draw(st.lists(_OPTIONS, max_size=4, min_size=0 if clauses else 1)))
    return ChangeSource(options, clauses, channel=draw(_CHANNELS), old=draw(st.booleans()))


_THREADS = st.sampled_from([Threads.IO, Threads.SQL, Threads.BOTH])
_UNTIL = (
    st.builds(Until, st.just("Source"), _LINES, _NUMBERS)
    | st.builds(Until, st.just("Relay"), _LINES, _NUMBERS)
    | st.builds(Until, gtids=_LINES.filter(bool), before=st.booleans())
)
_STARTS = st.builds(StartReplica, _THREADS, st.none() | _UNTIL, channel=_CHANNELS) | st.builds(
    StartReplica,
    st.sampled_from([Threads.IO, Threads.BOTH]),
    channel=_CHANNELS,
    user=st.none() | _LINES,
    password=st.none() | _LINES,
)
_EVENTS = st.builds(
    ShowBinlogEvents, st.none() | _LINES, _NUMBERS, st.just(0), st.none() | _NUMBERS
) | st.builds(
    ShowBinlogEvents,
    st.none() | _LINES,
    _NUMBERS,
    _NUMBERS,
    _NUMBERS,
    st.just(True),
    channel=_CHANNELS,
)
_OLD = st.booleans()

commands: st.SearchStrategy[Command] = st.one_of(
    st.builds(ChangeReplicationFilter, _clauses(list(RuleKind), unique=False), channel=_CHANNELS),
    st.builds(
        ChangeReplicaFilter,
        _clauses(list(RuleKind), unique=False),
        _LINES,
        st.none() | _NUMBERS,
        channel=_CHANNELS,
    ),
    _sources(),
    st.builds(ChangeBinlog, _LINES, _clauses(list(EffectiveRuleKind), unique=True).filter(bool)),
    _STARTS,
    st.builds(StartReplica, _THREADS, every=st.just(True)),
    st.builds(StopReplica, _THREADS, channel=_CHANNELS),
    st.builds(StopReplica, _THREADS, every=st.just(True)),
    st.builds(ResetReplica, st.booleans(), channel=_CHANNELS),
    st.builds(ShowReplicaStatus, channel=_CHANNELS, old=_OLD),
    st.builds(ShowReplicaStatus, old=_OLD, every=st.just(True)),
    st.builds(ShowReplicas, old=_OLD),
    st.builds(ShowBinaryLogStatus, old=_OLD),
    st.just(ShowBinaryLogs()),
    _EVENTS,
    st.builds(PurgeBinaryLogs, to=_LINES),
    st.builds(PurgeBinaryLogs, before=st.datetimes()),
)


# their spellings


class Name(str):
    """A name without quotes, whose letters keep their case."""


class Speller:
    """Draws a spelling of each part of a statement."""

    def __init__(self, draw: DRAW) -> None:
        self.draw = draw

    def one_of(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def string(self, value: str) -> str:
        quote = self.one_of("'", '"')
        return (
            quote + value.replace("\\", "\\\\").replace(quote, self.one_of("\\" + quote, quote * 2)) + quote
        )

    def name(self, value: str) -> str:
        if _PLAIN.fullmatch(value) and value.upper() not in reserved() and self.draw(st.booleans()):
            return Name(value)
        return "`" + value.replace("`", "``") + "`"

    def list_of(self, items: Iterable[list[str]]) -> list[str]:
        words = ["("]
        for item in items:
            words += ([","] if len(words) > 1 else []) + item
        return [*words, ")"]

    def join(self, words: list[str]) -> str:
        """Join the words with any text that separates them. Beside a symbol nothing is needed."""
        text = words[0]
        for before, word in pairwise(words):
            needed = "" if {before, word} & set("(),=.") else " "
            text += self.one_of(needed, " ", *_GAPS) + word
        ends = self.one_of("", ";", " ; ", " -- end", " /* end */", "\n;;\n")
        return self.one_of("", " ", "\n") + text + ends


@st.composite
def spelled(draw: DRAW, command: Command) -> str:
    """Draw a statement that is this command."""
    speller = Speller(draw)
    words = [
        draw(st.sampled_from([word.lower(), word.upper(), word.capitalize()]))
        if re.fullmatch("[A-Z_]+", word) and not isinstance(word, Name)
        else word
        for word in _words(speller, command)
    ]
    return speller.join(words)


def _channel(speller: Speller, channel: str | None) -> list[str]:
    return [] if channel is None else ["FOR", "CHANNEL", speller.string(channel)]


def _named(speller: Speller, channel: str | None) -> tuple[list[str], list[str]]:
    """Return the words for the channel: at MariaDB's place and at MySQL's. One of them is empty."""
    if channel is not None and speller.draw(st.booleans()):
        return [speller.string(channel)], []
    return [], _channel(speller, channel)


def _rule_words(speller: Speller, rule: Rule) -> list[str]:
    match rule.kind:
        case RuleKind.DO_DB | RuleKind.IGNORE_DB:
            return [speller.name(rule.value)]
        case RuleKind.DO_TABLE | RuleKind.IGNORE_TABLE:
            database, _, table = rule.value.partition(".")
            return [f"{speller.name(database)}.{speller.name(table)}"]
        case RuleKind.REWRITE_DB:
            source, target = rule.pair
            return ["(", speller.name(source), ",", speller.name(target), ")"]
        case _:
            return [speller.string(rule.value)]


def _clause(speller: Speller, clause: FilterClause) -> list[str]:
    name = clause.kind.value.upper().replace("-", "_")
    return [name, "=", *speller.list_of(_rule_words(speller, rule) for rule in clause.rules)]


def _rule_options(speller: Speller, clause: FilterClause) -> list[list[str]]:
    """Return one option for each rule of the clause."""
    name = clause.kind.value.upper()
    name = speller.one_of(name, name.replace("-", "_"), name.lower())
    if not clause.rules:
        return [[name, "=", speller.string("")]]
    return [[name, "=", speller.string(rule.value)] for rule in clause.rules]


def _option(speller: Speller, name: str, value: object) -> list[str]:
    prefix = {"USE_GTID": "MASTER_"}.get(name, speller.one_of("MASTER_", "SOURCE_"))
    if name in ("FILTER_ON", "IGNORE_SERVER_IDS", "DO_DOMAIN_IDS", "IGNORE_DOMAIN_IDS"):
        prefix = ""
    match value:
        case tuple():
            words = speller.list_of([str(number)] for number in value)
        case bool():
            words = [str(int(value))]
        case str() if name == "USE_GTID":
            words = [value]
        case str():
            words = [speller.string(value)]
        case _:
            words = [repr(value)]
    return [prefix + name, "=", *words]


def _commas(items: Iterable[list[str]]) -> list[str]:
    words: list[str] = []
    for item in items:
        words += ([","] if words else []) + item
    return words


def _thread_words(speller: Speller, threads: Threads) -> list[str]:
    io = speller.one_of("IO_THREAD", "RELAY_THREAD")
    match threads:
        case Threads.IO:
            return [io]
        case Threads.SQL:
            return ["SQL_THREAD"]
    return speller.draw(st.sampled_from([[], [io, ",", "SQL_THREAD"], ["SQL_THREAD", ",", io]]))


def _until_words(speller: Speller, until: Until | None) -> list[str]:
    if until is None:
        return []
    if until.gtids:
        name = "SQL_BEFORE_GTIDS" if until.before else speller.one_of("SQL_AFTER_GTIDS", "MASTER_GTID_POS")
        return ["UNTIL", name, "=", speller.string(until.gtids)]
    relay = until.log == "Relay"
    prefix = "RELAY" if relay else speller.one_of("SOURCE", "MASTER")
    file = [f"{prefix}_LOG_FILE", "=", speller.string(until.file)]
    at = [f"{prefix}_LOG_POS", "=", str(until.position)]
    return ["UNTIL", *_commas(speller.draw(st.permutations([file, at])))]


def _words(speller: Speller, command: Command) -> list[str]:
    replica = speller.one_of("REPLICA", "SLAVE")
    match command:
        case ChangeReplicationFilter(clauses, channel=channel):
            filters = _commas(_clause(speller, clause) for clause in clauses)
            return ["CHANGE", "REPLICATION", "FILTER", *filters, *_channel(speller, channel)]
        case ChangeReplicaFilter(clauses, user, server_id, channel=channel):
            filters = _commas(_clause(speller, clause) for clause in clauses)
            number = [] if server_id is None else ["SERVER_ID", str(server_id)]
            head = ["CHANGE", "REPLICATION", "FILTER", *filters, "FOR", replica]
            return [*head, speller.string(user), *number, *_channel(speller, channel)]
        case ChangeSource(options, clauses, channel=channel, old=old):
            listed = _commas(
                [
                    *(_option(speller, name, value) for name, value in options),
                    *(words for clause in clauses for words in _rule_options(speller, clause)),
                ]
            )
            name, end = _named(speller, channel) if old else ([], _channel(speller, channel))
            head = ["MASTER", *name] if old else ["REPLICATION", "SOURCE"]
            return ["CHANGE", *head, "TO", *listed, *end]
        case ChangeBinlog(name, clauses):
            listed = _commas(words for clause in clauses for words in _rule_options(speller, clause))
            return ["CHANGE", "BINLOG", speller.string(name), "TO", *listed]
        case StartReplica(threads, every=True):
            return ["START", "ALL", speller.one_of("SLAVES", "REPLICAS"), *_thread_words(speller, threads)]
        case StartReplica(threads, until, user, password, channel=channel):
            name, end = _named(speller, channel)
            given = {"USER": user, "PASSWORD": password}
            login = [[key, "=", speller.string(value)] for key, value in given.items() if value is not None]
            body = [
                *_thread_words(speller, threads),
                *_until_words(speller, until),
                *(word for words in login for word in words),
            ]
            return ["START", replica, *name, *body, *end]
        case StopReplica(threads, every=True):
            return ["STOP", "ALL", speller.one_of("SLAVES", "REPLICAS"), *_thread_words(speller, threads)]
        case StopReplica(threads, channel=channel):
            name, end = _named(speller, channel)
            return ["STOP", replica, *name, *_thread_words(speller, threads), *end]
        case ResetReplica(everything, channel=channel):
            name, end = _named(speller, channel)
            return ["RESET", replica, *name, *(["ALL"] if everything else []), *end]
        case ShowReplicaStatus(old=old, every=True):
            return ["SHOW", "ALL", "SLAVES" if old else "REPLICAS", "STATUS"]
        case ShowReplicaStatus(channel=channel, old=old):
            name, end = _named(speller, channel)
            return ["SHOW", "SLAVE" if old else "REPLICA", *name, "STATUS", *end]
        case ShowReplicas(old=old):
            return ["SHOW", "SLAVE", "HOSTS"] if old else ["SHOW", "REPLICAS"]
        case ShowBinaryLogStatus(old=old):
            return ["SHOW", "MASTER", "STATUS"] if old else ["SHOW", "BINARY", "LOG", "STATUS"]
        case ShowBinaryLogs():
            return ["SHOW", speller.one_of("BINARY", "MASTER"), "LOGS"]
        case ShowBinlogEvents(file, position, offset, count, relay_log, channel=channel):
            where = [] if file is None else ["IN", speller.string(file)]
            if count is None:
                limit = []
            elif speller.draw(st.booleans()):
                limit = ["LIMIT", str(offset), ",", str(count)]
            else:
                limit = ["LIMIT", str(count), "OFFSET", str(offset)]
            name, end = _named(speller, channel)
            what = ["RELAYLOG", *name] if relay_log else ["BINLOG"]
            return ["SHOW", *what, "EVENTS", *where, "FROM", str(position), *limit, *end]
        case PurgeBinaryLogs(to=str(file)):
            return ["PURGE", speller.one_of("BINARY", "MASTER"), "LOGS", "TO", speller.string(file)]
        case PurgeBinaryLogs(before=before) if before is not None:
            text = before.isoformat(speller.one_of(" ", "T"))
            return ["PURGE", speller.one_of("BINARY", "MASTER"), "LOGS", "BEFORE", speller.string(text)]
    raise AssertionError(command)
