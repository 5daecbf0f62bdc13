"""The step from drafts to a topology: checked names and rules, the kind of each node, and the masters in between.

A node that says no more than its sources is a master or a slave of dumpfilter. It is a master if it has
readers, no rules, and one source, which is a server, a recording or a workload. Otherwise the node is a slave.

A slave cannot read a server, a recording or a workload directly, and a real replica cannot read binlog files. A master
is then put between. Links and SQL belong to the master of a recording or workload. So that master takes the name
``m``, and the files are called ``m-recording`` or ``m-workload``. The master of a real server ``m`` is ``m-master``.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dumpfilter.errors import OptionError
from dumpfilter.filter.rules import EffectiveRuleKind, FilterSemantics, RuleKind, parse_option
from dumpfilter.links.shape import PLAIN
from dumpfilter.options.near import did_you_mean
from dumpfilter.topology.checks import check_topology
from dumpfilter.topology.drafts import (
    Draft,
    DraftReading,
    Recording,
    Role,
    Running,
    Server,
    Workload,
)
from dumpfilter.topology.inference import NodeFacts, inferred_role, inferred_style
from dumpfilter.topology.model import (
    MasterNode,
    Node,
    Reading,
    RecordingNode,
    RunningNode,
    ServerNode,
    SlaveNode,
    Topology,
    WorkloadNode,
)

MOST_NODES = 1000
"""The most nodes of a topology. Each one becomes a process."""

MOST_SOURCES = 64
"""The most nodes on the way from the first source to a node. A simulation computes each way anew."""

LONGEST_NAME = 64
"""The longest name of a node, characters, since a channel has the name of its source."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_WHAT = {Workload: "a workload", Recording: "a recording", Running: "a running server"}
_NETWORKLESS = Recording | Workload


def resolve(drafts: Sequence[Draft], name: str = "topology") -> Topology:
    """Return the topology that the drafts describe, with sources before their readers.

    Raises OptionError that names the node and the key, and says the cure.
    """
    if len(drafts) > MOST_NODES:
        raise OptionError(
            f"{drafts[MOST_NODES].where('')}: the topology has {len(drafts)} nodes, and the limit is {MOST_NODES}; "
            "leave nodes out"
        )
    by_name = _by_name(drafts)
    for draft in drafts:
        _check_sources(draft, by_name)
    ordered = _with_masters(_sources_first(drafts))
    _check_depth(ordered)
    by_name = {draft.name: draft for draft in ordered}
    facts = [_facts(draft) for draft in ordered]
    topology = Topology(tuple(_node(draft, facts, by_name) for draft in ordered), name)
    wheres = {draft.name: draft.where for draft in ordered}
    check_topology(topology, lambda node, key: wheres[node](key))
    return topology


def full_rule(text: str) -> str:
    """Return a rule with the full name of its option. Raises OptionError for a rule that no filter takes.

    >>> full_rule("do-db=shop"), full_rule("--replicate_do_db=shop"), full_rule("do=shop.%")
    ('replicate-do-db=shop', 'replicate-do-db=shop', 'do=shop.%')
    """
    name, equals, value = text.strip().removeprefix("--").partition("=")
    name = name.strip().replace("_", "-")
    kinds = {
        **{kind.worklog_option: kind for kind in RuleKind if kind.worklog_option},
        **{kind.option.removeprefix("replicate-"): kind for kind in RuleKind},
        **{kind.option: kind for kind in (*RuleKind, *EffectiveRuleKind)},
    }
    kind = kinds.get(name)
    if kind is None:
        near = did_you_mean(name, [kind.option for kind in (*RuleKind, *EffectiveRuleKind)])
        raise OptionError(f"{text!r} is no filter rule{near}")
    if not equals:
        raise OptionError(f"{text!r}: the value is missing; write {name}={kind.metavar}")
    semantics = FilterSemantics.CLASSIC if isinstance(kind, RuleKind) else FilterSemantics.EFFECTIVE
    return str(parse_option(f"--{kind.option}={value.strip()}", semantics)).removeprefix("--")


def _by_name(drafts: Sequence[Draft]) -> dict[str, Draft]:
    if not drafts:
        raise OptionError("the topology has no nodes; the smallest one is m >> web")
    found: dict[str, Draft] = {}
    folded: dict[str, str] = {}
    for draft in drafts:
        check_name(draft.name, draft.where(""))
        other = folded.setdefault(draft.name.casefold(), draft.name)
        if draft.name in found:
            raise OptionError(f"{draft.where('')}: two nodes are called {draft.name}; give one another name")
        if other != draft.name:
            raise OptionError(
                f"{draft.where('')}: the names {other} and {draft.name} differ only in case, which channels and files "
                "do not tell apart; give one another name"
            )
        found[draft.name] = draft
    return found


def check_name(name: str, where: str) -> None:
    """Check the name of a node. Raises OptionError at ``where``."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise OptionError(
            f"{where}: {name!r} is no name of a node: use at most {LONGEST_NAME} letters, digits, - and _"
        )


def _check_sources(draft: Draft, by_name: Mapping[str, Draft]) -> None:
    seen: set[str] = set()
    for reading in draft.reads:
        where = draft.where("from")
        if reading.source not in by_name:
            known = [name for name in by_name if name != draft.name]
            raise OptionError(
                f"{where}: there is no node {reading.source!r}{did_you_mean(reading.source, known)}"
            )
        if reading.source in seen:
            raise OptionError(f"{where}: {reading.source} stands there twice; a node reads a source once")
        seen.add(reading.source)
    match draft.kind:
        case Workload() | Recording() | Running() if draft.reads:
            raise OptionError(
                f"{draft.where('from')}: {draft.name} is {_WHAT[type(draft.kind)]}, which reads nothing; "
                "leave from out"
            )
    if draft.options and draft.kind is not None and not isinstance(draft.kind, Server):
        raise OptionError(
            f"{draft.where('options')}: {draft.name} is {_WHAT[type(draft.kind)]}, which has no command line; leave "
            "options out"
        )
    if draft.kind is None and not draft.reads:
        raise OptionError(
            f"{draft.where('')}: says neither what the node is nor what it reads; give server, connect, binlogs, "
            "workload or from"
        )
    if draft.kind is not None and draft.role is not None:
        raise OptionError(
            f"{draft.where('role')}: {draft.role} is a role of dumpfilter's own nodes; leave role out, or leave out "
            "what says that the node is a server or files"
        )


def _sources_first(drafts: Sequence[Draft]) -> list[Draft]:
    """Return the drafts in an order in which each stands after its sources. Raises OptionError for a circle."""
    position = {draft.name: at for at, draft in enumerate(drafts)}
    waiting = {draft.name: len(draft.reads) for draft in drafts}
    readers: dict[str, list[str]] = {draft.name: [] for draft in drafts}
    for draft in drafts:
        for reading in draft.reads:
            readers[reading.source].append(draft.name)
    ready = [position[name] for name, count in waiting.items() if not count]
    heapq.heapify(ready)
    ordered = []
    while ready:
        draft = drafts[heapq.heappop(ready)]
        ordered.append(draft)
        for name in readers[draft.name]:
            waiting[name] -= 1
            if not waiting[name]:
                heapq.heappush(ready, position[name])
    if len(ordered) < len(drafts):
        raise _circle({draft.name: draft for draft in drafts}, {name for name in waiting if waiting[name]})
    return ordered


def _check_depth(ordered: Sequence[Draft]) -> None:
    """Check the length of the way to each node. ``ordered`` has sources before their readers. Raises OptionError."""
    sources: dict[str, int] = {}
    for draft in ordered:
        sources[draft.name] = max((sources[reading.source] + 1 for reading in draft.reads), default=0)
        if sources[draft.name] > MOST_SOURCES:
            raise OptionError(
                f"{draft.where('from')}: {sources[draft.name]} nodes stand before {draft.name} in a chain, and the "
                f"limit is {MOST_SOURCES}; let nodes read from an earlier one"
            )


def _circle(by_name: Mapping[str, Draft], waiting: set[str]) -> OptionError:
    # A waiting node has a waiting source. So the way from source to source comes back to one of its nodes.
    path = [min(waiting, key=list(by_name).index)]
    while True:
        source = next(reading.source for reading in by_name[path[-1]].reads if reading.source in waiting)
        if source in path:
            circle = [*path[path.index(source) :], source]
            text = " >> ".join(reversed(circle))
            return OptionError(
                f"{by_name[circle[0]].where('from')}: the nodes read in a circle, {text}; leave one arrow out"
            )
        path.append(source)


def _with_masters(ordered: Sequence[Draft]) -> list[Draft]:
    """Return the drafts with the masters that the notation leaves out, and with the role of each node."""
    taken = {draft.name.casefold() for draft in ordered}
    roles: dict[str, Role | None] = {}
    renamed: dict[str, str] = {}
    """The new names of recordings and workloads whose masters took their names."""
    made: dict[str, str] = {}
    """The masters in between, by the name of the source as the notation has it."""
    result: list[Draft] = []
    readers: dict[str, list[Draft]] = {}
    for draft in ordered:
        for reading in draft.reads:
            readers.setdefault(reading.source, []).append(draft)
    own = {draft.name for draft in ordered if _gets_own_master(draft, readers)}
    for draft in ordered:
        if draft.name in own:
            suffix = "recording" if isinstance(draft.kind, Recording) else "workload"
            files = _free_name(f"{draft.name}-{suffix}", taken)
            renamed[draft.name] = files
            result.append(replace(draft, name=files, own_master=False))
            result.append(
                Draft(draft.name, draft.where, role="master", reads=(DraftReading(files, draft.where),))
            )
            # The readers of a recording have the roles that they would have without the master in between.
            roles[draft.name] = "master" if draft.own_master else None
            continue
        role = _role(draft, roles, draft.name in readers)
        roles[draft.name] = role
        reads = []
        for reading in draft.reads:
            source = reading.source
            if role == "master":
                source = renamed.get(source, source)
            elif role == "slave" and roles[source] is None and source not in own:
                if source not in made:
                    made[source] = _free_name(f"{source}-master", taken)
                    result.append(
                        Draft(
                            made[source],
                            reading.where,
                            role="master",
                            reads=(DraftReading(source, draft.where),),
                        )
                    )
                source = made[source]
            reads.append(replace(reading, source=source))
        result.append(replace(draft, role=role, reads=tuple(reads)))
    return result


def _gets_own_master(draft: Draft, readers: Mapping[str, Sequence[Draft]]) -> bool:
    """Tell whether a master takes the name of a recording or workload. ``readers`` has the readers of each node."""
    if not isinstance(draft.kind, _NETWORKLESS):
        return False
    mine = readers.get(draft.name, ())
    if draft.own_master:
        return not mine or any(each.role != "master" for each in mine)
    return not mine or any(
        each.kind is not None or _role(each, {}, each.name in readers) == "slave" for each in mine
    )


def _role(draft: Draft, roles: Mapping[str, Role | None], has_readers: bool) -> Role | None:
    if draft.kind is not None or draft.role is not None:
        return draft.role
    return inferred_role(
        [roles.get(reading.source) for reading in draft.reads],
        has_rules=any(reading.rules for reading in draft.reads),
        has_readers=has_readers,
    )


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free.casefold() in taken:
        free, number = f"{name}-{number}", number + 1
    if len(free) > LONGEST_NAME:
        raise OptionError(
            f"{free}: the name of a node that stands in between is longer than {LONGEST_NAME} characters; shorten the "
            "name of its source"
        )
    taken.add(free.casefold())
    return free


def _node(draft: Draft, facts: Sequence[NodeFacts], by_name: Mapping[str, Draft]) -> Node:
    reads = tuple(_reading(draft, reading, by_name) for reading in draft.reads)
    match draft.kind:
        case Server(family, program, init, gtid):
            return ServerNode(draft.name, reads, draft.options, family, program, init, gtid)
        case Running(url):
            return RunningNode(draft.name, reads, draft.options, url)
        case Recording(binlogs, speed):
            return RecordingNode(draft.name, reads, draft.options, binlogs, speed)
        case Workload(size, rate, seed, style):
            style = style or inferred_style(draft.name, facts)
            return WorkloadNode(draft.name, reads, draft.options, size, rate, seed, style)
    return (MasterNode if draft.role == "master" else SlaveNode)(draft.name, reads, draft.options)


def _facts(draft: Draft) -> NodeFacts:
    family = draft.kind.family if isinstance(draft.kind, Server) else None
    return draft.name, [reading.source for reading in draft.reads], family


def _reading(draft: Draft, reading: DraftReading, by_name: Mapping[str, Draft]) -> Reading:
    rules = []
    for number, text in enumerate(reading.rules, 1):
        try:
            rules.append(full_rule(text))
        except OptionError as error:
            raise OptionError(f"{reading.where(f'rules[{number}]')}: {error}") from None
    kind = by_name[reading.source].kind
    if reading.link != PLAIN and draft.role == "master" and isinstance(kind, _NETWORKLESS):
        what = "recording" if isinstance(kind, Recording) else "workload"
        raise OptionError(
            f"{reading.where('link')}: {draft.name} reads the {what} {reading.source} from files, without a network; "
            f"give the link to the readers of {draft.name}"
        )
    return Reading(reading.source, reading.link, tuple(rules))
