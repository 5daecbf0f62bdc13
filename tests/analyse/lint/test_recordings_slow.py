"""The warnings agree with what real replicas did: nothing is claimed that did not happen, and no difference is missed.

The replicas of the recordings ran with skip-errors, so that they went on after an error.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.analyse.lint.findings import Code, Item, Level
from dumpfilter.analyse.lint.knowledge import SetKnowledge, gather
from dumpfilter.analyse.lint.linting import RememberingFilter, dropped_xa, lint
from dumpfilter.analyse.lint.replica import ReplicaWalk
from dumpfilter.binlog.statement.statement import Statement
from dumpfilter.index.fileset import BinlogSet
from tests.oracle.recordings import Recording, all_recordings, filter_of

DIFFERS_WITHOUT_A_FILTER = {"mysql57-types", "mysql97-foreign-keys-row"}
"""Recordings in which a replica without rules differs from its source, too."""

NAMES_DIFFER = {"mysql-lower-case-replica-only", "mariadb-lower-case-replica-only"}
"""Recordings whose replicas write the names of tables in lower case, and the source does not."""

FILTERED_XA = (3227, 3898)
"""The errors at which MySQL 5.7 and later versions stop at an XA transaction that changes nothing on the replica."""

_MISSING = re.compile(r"Table '([^']*)' doesn't exist|Unknown table '([^']*)'")


@cache
def _knowledge(recording: Recording) -> SetKnowledge:
    return gather(BinlogSet.open(recording.files))


def _failed(case: dict[str, Any]) -> set[str]:
    """Return the tables that the replica's errors name, in lower case."""
    found = _MISSING.findall("\n".join(case["passed_but_failed"]))
    return {name.lower() for pair in found for names in pair for name in (names, *names.split(","))}


@cache
def _walked(recording: Recording, name: str) -> list[Item]:
    return list(ReplicaWalk(RememberingFilter(filter_of(recording, name))).walk(_knowledge(recording)))


@cache
def _warns(recording: Recording, name: str) -> bool:
    # The walk is most of lint, so that lint runs only where the walk has found no fault.
    return any(item.code.level is Level.WARNING for item in _walked(recording, name)) or any(
        each.level is Level.WARNING for each in lint(filter_of(recording, name), _knowledge(recording))
    )


def test_contributing_has_the_numbers_of_the_recordings() -> None:
    cases = [(one, name, case) for one in all_recordings() for name, case in one.oracle["cases"].items()]
    ended = [(one, name) for one, name, case in cases if not case["stopped"]]
    compared = [(one, name) for one, name in ended if one.name not in DIFFERS_WITHOUT_A_FILTER | NAMES_DIFFER]
    quiet = [pair for pair in compared if not _warns(*pair)]
    text = " ".join((Path(__file__).parents[3] / "CONTRIBUTING.md").read_text().split())
    assert f"{len(cases)} pairs of a recording and a filter" in text
    assert f"The {len(cases) - len(ended)} replicas that stopped" in text
    assert f"the other {len(ended)} replicas" in text
    assert f"Each of the {len(quiet)} replicas whose filter has no warning" in text
    assert f"{len(ended) - len(compared)} replicas of four recordings are left out" in text


@pytest.mark.parametrize("recording", all_recordings(), ids=lambda recording: recording.name)
class TestRecordings:
    def test_a_missing_table_was_missing(self, recording: Recording) -> None:
        known = _knowledge(recording)
        for name, case in recording.oracle["cases"].items():
            if case["stopped"]:
                continue
            failed = _failed(case)
            for item in _walked(recording, name):
                if item.code is not Code.MISSING_TABLE or not item.is_sure:
                    continue
                database, _, table = item.name.partition(".")
                if recording.family == "mariadb":
                    # MariaDB's log does not tell of errors that skip-errors passes over. A later statement may have
                    # made the table.
                    kept = case["state"].get(database, {}).get(table)
                    made = sum(
                        (database, table)
                        in {(t.database or e.subject.current_database, t.table) for t in e.facts.makes}
                        for e in known.events
                        if e.facts.makes
                    )
                    assert kept is None or made != 1, (name, item)
                elif database in case["state"]:
                    assert item.name.lower() in failed or _tells(case, item), (name, item)

    def test_a_replica_without_a_warning_is_as_the_source(self, recording: Recording) -> None:
        if recording.name in DIFFERS_WITHOUT_A_FILTER | NAMES_DIFFER:
            return  # The replicas differ for another reason.
        for name, case in recording.oracle["cases"].items():
            rule_filter = filter_of(recording, name)
            if case["stopped"] or _warns(recording, name):
                continue
            for database, tables in recording.oracle["source"]["state"].items():
                for table, state in tables.items():
                    if rule_filter.rows_ok(database, table):
                        there, called = rule_filter.rewrite_table(database, table)
                        assert case["state"].get(there, {}).get(called) == state, (name, database, table)

    def test_mysql_stopped_where_the_filter_drops_a_whole_xa_transaction(self, recording: Recording) -> None:
        if recording.family == "mariadb":
            return  # A MariaDB replica goes on.
        for name, case in recording.oracle["cases"].items():
            stopped = case["stopped"] is not None and case["stopped"]["errno"] in FILTERED_XA
            dropped = any(dropped_xa(filter_of(recording, name), _knowledge(recording)))
            # A replica also stops at a transaction whose statements pass and fail, so that it changes nothing.
            assert dropped == stopped or (stopped and case["passed_but_failed"]), name

    def test_a_lost_statement_was_lost(self, recording: Recording) -> None:
        if recording.name.endswith("-forms3"):
            return  # Its statements change no row for good.
        for name, case in recording.oracle["cases"].items():
            if case["stopped"]:
                continue
            rule_filter = filter_of(recording, name)
            for item in _walked(recording, name):
                database, _, table = item.name.partition(".")
                state = recording.oracle["source"]["state"].get(database, {}).get(table)
                if item.code is Code.LOST_STATEMENT and state is not None and state["rows"]:
                    there, called = rule_filter.rewrite_table(database, table)
                    assert case["state"].get(there, {}).get(called) != state, (name, item)


def _tells(case: dict[str, Any], item: Item) -> bool:
    """Tell whether the replica's log tells of the statement that needs the table, or lacks the whole database."""
    event = item.events[-1]
    evidence = event.evidence
    assert evidence is not None
    if isinstance(event.subject, Statement):
        # The server reports one table of a statement, even if others are missing, too.
        named = {
            table.table.lower() for table in (*event.facts.tables, *chain(*(event.subject.updated or ())))
        }
        if named & {name.rpartition(".")[2] for name in _failed(case)}:
            return True
    text = " ".join("\n".join(case["passed_but_failed"]).split())
    if "Unable to open underlying table" in text:
        return True  # A MERGE table, of which the error does not name the missing table.
    database = item.name.partition(".")[0]
    return (
        evidence.text.rpartition("; ")[2].rstrip("…")[:50] in text or f"Unknown database '{database}'" in text
    )
