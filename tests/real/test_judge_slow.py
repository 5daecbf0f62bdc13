"""Real replicas behind dumpfilter end as the recorded replicas, for cases of every recording of MariaDB.

The cases of a recording have all its kinds of rules. Half of the replicas filter for themselves, too.
``python -m tests.real.judge`` takes all cases, and those of MySQL (CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from tests.oracle.recordings import Recording
from tests.real.behind import PASSWORD, Dumpfilter, users
from tests.real.judging import (
    Replicas,
    Upstream,
    cases,
    differences,
    kept_on_replica,
    recorded_end,
    run,
    same_names,
    sample,
    set_end,
)
from tests.real.server import Servers
from tests.slave.processes import Launcher

CASES = {
    recording.name: sample(list(group))
    for recording, group in groupby(cases("mariadb"), key=lambda case: case.recording)
    if same_names(recording)
}
"""The cases by recording."""


@pytest.fixture(scope="module")
def replicas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Replicas that each case empties first."""
    with Servers("mariadb", tmp_path_factory.mktemp("judge")) as servers:
        yield Replicas(servers)


@pytest.mark.parametrize("name", CASES)
def test_replicas_end_as_recorded(name: str, replicas: Replicas, launcher: Launcher, tmp_path: Path) -> None:
    asked = CASES[name]
    recording: Recording = asked[0].recording
    lower = max(case.lower_case_table_names for case in asked)
    behind = Dumpfilter(launcher, tmp_path / "behind", f"--lower-case-table-names={lower}")
    behind.configure(users({f"c{number}": case.rules for number, case in enumerate(asked)}))
    behind.start(recording.path / "bin.index")
    found = []
    for number, case in enumerate(asked):
        # The statements with uncertain names are undecided: they are sent, and the replica's own rules drop them.
        keeps_all = number % 2 or recording.name.endswith("client-charsets")
        own = case.rules if keeps_all else kept_on_replica(case.rules)
        upstream = Upstream(behind.port, f"c{number}", PASSWORD, set_end(recording))
        got = run(replicas.for_case(case), upstream, case, own)
        found += [f"{case}: {line}" for line in differences(case, recorded_end(case), got)]
        if not got.sql_error[0] and got.read != upstream.end:
            found.append(f"{case}: read up to {got.read}, the set ends at {upstream.end}")
    assert not found


def test_the_sample_has_every_kind_of_rule() -> None:
    """The sample stays small, and leaves out no kind of rule."""
    kinds = {
        rule.removeprefix("--replicate-").partition("=")[0]
        for asked in CASES.values()
        for case in asked
        for rule in case.rules
    }
    assert kinds == {
        *(
            "do-db",
            "ignore-db",
            "do-table",
            "ignore-table",
            "wild-do-table",
            "wild-ignore-table",
            "rewrite-db",
        )
    }
