"""Explanations of recorded cases agree with the dump, and the sums of a set agree with its events."""

from __future__ import annotations

import io

import pytest

from dumpfilter.analyse.explain import ExplainedEvent, Filters, explain_events, explain_set
from dumpfilter.binlog.events import MAGIC, EventHeader, EventType
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.reader import iter_events, read_format_description
from dumpfilter.dump.payload import open_payload
from dumpfilter.filter.base import Verdict
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogSet
from tests.oracle.dumping import Stream, dump
from tests.oracle.recordings import Recording, covering_cases

CASES = [
    pytest.param(recording, case, id=f"{recording.name}-{case}") for recording, case in covering_cases()[::5]
]
"""A fifth of the cases. Cases of one recording have most of their events and sums in common."""


@pytest.mark.parametrize(("recording", "case"), CASES)
def test_a_recorded_case(recording: Recording, case: str) -> None:
    """Compare the explanation of a case with its dump. One dump and one pass over the events serve both comparisons."""
    replica = recording.replica(case)
    names = NameRules(recording.family, recording.names, replica.lower_case_table_names)
    filters = Filters(Filter.from_options(replica.options, names=names))
    binlogs = BinlogSet.open(recording.files)
    stream = dump(recording.files, filters.slave)
    events = list(explain_events(binlogs, filters))
    _check_sent(recording, filters, stream, events)
    _check_sums(binlogs, filters, stream, events)


def _check_sent(
    recording: Recording, filters: Filters, stream: Stream, explained: list[ExplainedEvent]
) -> None:
    _check_inside(recording, stream, explained)
    sources = {path.name: path.read_bytes() for path in recording.files}
    told: dict[str, list[EventHeader]] = {name: [] for name in stream.files}
    for event in explained:
        if event.inside is None and event.sent and event.type != "Format_desc":
            header = EventHeader.unpack(sources[event.file], event.position)
            told[event.file].append(header._replace(size=0))
    for name, data in stream.files.items():
        events = iter_events(io.BytesIO(data), file=name, verify=False)
        assert data.startswith(MAGIC)
        # the size of a compressed transaction that is sent in part differs
        assert told[name] == [e.header._replace(size=0) for e in events if e.name != "Format_desc"]
    decided = [event for event in explained if event.inside is None and event.decision is not None]
    for event in decided:
        assert event.decision is not None
        # table maps are dropped when no rows of their table follow
        assert event.sent == event.decision.verdict.passes or event.type == "Table_map"
    for subject, decision in {(event.subject, event.decision) for event in decided}:
        assert subject is not None
        assert decision == filters.decide(subject)
    undecided = [e for e in decided if e.sent and e.decision and e.decision.verdict is Verdict.UNDECIDED]
    assert len(undecided) <= stream.counts.events_undecided


def _check_inside(recording: Recording, stream: Stream, explained: list[ExplainedEvent]) -> None:
    """Compare the events that are explained as sent inside compressed transactions with those in the dump's ones."""
    sources = {path.name: path.read_bytes() for path in recording.files}
    told: list[EventHeader] = []
    opened: dict[tuple[str, int], bytes] = {}
    for event in explained:
        if event.inside is not None and event.sent:
            place = event.file, event.position
            if place not in opened:
                size = EventHeader.unpack(sources[event.file], event.position).size
                raw = sources[event.file][event.position : event.position + size]
                opened[place] = open_payload(
                    raw, read_format_description(io.BytesIO(sources[event.file]), file=event.file)
                )
            told.append(EventHeader.unpack(opened[place], event.inside))
    found: list[EventHeader] = []
    for name, data in stream.files.items():
        for outer in iter_events(io.BytesIO(data), file=name, verify=False):
            if outer.type == EventType.TRANSACTION_PAYLOAD:
                inner, at = open_payload(outer.raw, outer.fd), 0
                while at < len(inner):
                    found.append(EventHeader.unpack(inner, at))
                    at += found[-1].size
    assert told == found


def _check_sums(
    binlogs: BinlogSet, filters: Filters, stream: Stream, explained: list[ExplainedEvent]
) -> None:
    found = explain_set(binlogs, filters)
    figures: dict[object, tuple[int, int]] = {}
    for event in explained:
        if event.type != "Format_desc":
            key = event.why if event.subject is None else event.subject
            n, size = figures.get(key, (0, 0))
            figures[key] = (n + 1, size + event.size)
    assert figures == found.others | {each.subject: (each.events, each.size) for each in found.subjects}
    assert found.counts == stream.counts
