"""A handful of the aborted runs: nothing is left running or lying about. ``tests.testbed.aborted`` has more of them."""

from __future__ import annotations

import pytest

from tests.testbed.aborted import FAILING, SERVERS, TOPOLOGIES, Run, abort

RUNS = {
    "kill-9": Run(TOPOLOGIES[1], "kill -9", 1.7, is_temporary=True),
    "kill-9-of-the-group": Run(TOPOLOGIES[0], "kill -9 of the group", 2.5, is_temporary=False),
    "ctrl-c-at-the-start": Run(TOPOLOGIES[0], "Ctrl-C", 0.8, is_temporary=False),
    "sigterm": Run(SERVERS[1], "SIGTERM", 2.5, is_temporary=True),
    "failing-start": Run(FAILING[0], "failing start", 0.0, is_temporary=True),
}


@pytest.mark.parametrize("name", RUNS)
def test_nothing_remains(name: str) -> None:
    assert abort(RUNS[name]) == []
