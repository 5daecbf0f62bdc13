"""Every recorded case, both servers: the law, and the real replicas' decisions.

The judge is what real replicas did (oracle.json). A recording names, by GTID, the tables whose rows a
replica changed and the statements it logged; what passed its filter and then failed there is named in its
error log.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.filter import Filter, Verdict
from slave.applier import apply_files
from slave.targets.summary import SummaryTarget
from tests.oracle.dumping import dump
from tests.oracle.recordings import Recording, all_cases

CASES = [pytest.param(recording, case, id=f"{recording.name}-{case}") for recording, case in all_cases()]
ROW_CASES = [p for p in CASES if p.values[0].row_format]


def filter_of(recording: Recording, case: str) -> Filter:
    replica = recording.replica(case)
    return Filter.from_options(
        replica.options, lower_case_table_names=replica.lower_case_table_names, family=recording.family
    )


def test_there_are_recordings() -> None:
    names = {p.values[0].name for p in ROW_CASES}
    assert {"mysql-row", "mariadb-row", "mysql-names", "mariadb-databases"} <= names
    assert len(CASES) >= 80


@pytest.mark.parametrize(("recording", "case"), CASES)
def test_the_law(recording: Recording, case: str, tmp_path: Path) -> None:
    """A slave fed the filtered stream ends where one fed everything does: state, position, GTID set."""
    rules = filter_of(recording, case)
    filtered = dump(recording.files, rules)
    full = dump(recording.files, Filter(family=recording.family))
    assert full.files == {path.name: _in_use_cleared(path.read_bytes()) for path in recording.files}
    states = []
    for stream, where in ((filtered, "filtered"), (full, "full")):
        target = SummaryTarget()
        apply_files(stream.write(tmp_path / where), rules, target)
        states.append(target.state())
    assert states[0] == states[1]
    assert filtered.position == full.position
    assert filtered.completed == full.completed == parse_gtid_set(recording.oracle["gtid"], recording.family)
    counts = filtered.counts
    assert counts.events_read == counts.events_sent + counts.events_dropped
    assert counts.bytes_read == counts.bytes_sent + counts.bytes_dropped


@pytest.mark.parametrize(("recording", "case"), CASES)
def test_rows_that_survive_are_those_of_the_real_replica(
    recording: Recording, case: str, tmp_path: Path
) -> None:
    replica = recording.replica(case)
    rules = filter_of(recording, case)
    observer = Observer(rules)
    stream = dump(recording.files, rules)
    apply_files(stream.write(tmp_path), rules, observer)
    fold = str.lower if replica.lower_case_table_names else str
    gtids = recording.gtids[: replica.until]
    logged_as_rows = {
        gtid
        for transaction, gtid in zip(recording.oracle["source"]["transactions"], recording.gtids, strict=True)
        if any(kind == "Table_map" for kind, _ in transaction["events"])
    }
    for gtid in gtids:
        ours = {fold(name) for name in observer.tables.get(gtid, ())}
        theirs = {fold(name) for name in replica.tables.get(gtid, ())}
        if gtid in logged_as_rows:
            assert theirs <= ours, gtid
            assert ours == theirs or gtid in replica.failed, (gtid, ours - theirs)
        else:
            assert not ours


@pytest.mark.parametrize(("recording", "case"), CASES)
def test_statements_that_are_decided_are_decided_as_the_real_replica_did(
    recording: Recording, case: str, tmp_path: Path
) -> None:
    """What the filter executes for sure ran there (or failed there); what it ignores did not. What it leaves
    undecided (statements under table rules) proves nothing."""
    replica = recording.replica(case)
    rules = filter_of(recording, case)
    everything = Observer(Filter(family=recording.family))
    apply_files(recording.files, Filter(family=recording.family), everything)
    observer = Observer(rules)
    apply_files(recording.files, rules, observer)
    for gtid in recording.gtids[: replica.until]:
        sent = observer.statements.get(gtid, [])
        all_of_them = everything.statements.get(gtid, [])
        ran = replica.statements.get(gtid, []) or replica.tables.get(gtid)
        if all_of_them and not sent and not observer.tables.get(gtid):
            assert not ran, (gtid, all_of_them)
            assert gtid not in replica.failed, (gtid, all_of_them)
        if recording.family == "mysql" and sent and Verdict.UNDECIDED not in observer.verdicts[gtid]:
            assert ran or gtid in replica.failed or _silent(sent), (gtid, sent)


def _silent(statements: list[str]) -> bool:
    """Statements that succeed on a replica without being logged there again, or are logged empty: changes of
    rows that are not there."""
    return all(
        re.match(r"(INSERT|UPDATE|DELETE|REPLACE|FLUSH|DROP TEMPORARY|CREATE TEMPORARY)", s)
        for s in statements
    )


def _in_use_cleared(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[21] &= 0xFE
    return bytes(changed)


class Observer:
    """A target that notes, by GTID, tables changed and statements run."""

    def __init__(self, rules: Filter) -> None:
        self.rules = rules
        self.gtid = ""
        self.tables: dict[str, set[str]] = defaultdict(set)
        self.statements: dict[str, list[str]] = defaultdict(list)
        self.verdicts: dict[str, set[Verdict]] = defaultdict(set)

    def begin(self, gtid: str | None) -> None:
        self.gtid = str(gtid)

    def rows(self, database, table, table_map, header, data) -> None:
        self.tables[self.gtid].add(f"{database}.{table}")

    def statement(self, database: str | None, text: bytes) -> None:
        self.statements[self.gtid].append(text.decode("utf-8", "replace"))
        self.verdicts[self.gtid].add(Verdict.UNDECIDED if self.rules.table_rules_on else Verdict.EXECUTE)

    def commit(self) -> None:
        pass

    def state(self) -> dict[str, object]:
        return {}

    def restore(self, state: dict[str, object]) -> None:
        pass
