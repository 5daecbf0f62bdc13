"""The faults of a phase, on a topology that notes them."""

from __future__ import annotations

import threading
from typing import Any, cast
from unittest.mock import MagicMock, call

import pytest

from dumpfilter.testbed import Testbed
from dumpfilter.testbed.experiment import Change, Load, Phase, _loads, run_phase


class NotedBed:
    """A topology with two links and a node, which notes what they are asked."""

    nodes = ("web",)

    def __init__(self) -> None:
        self.asked = MagicMock()

    def link(self, name: str) -> Any:
        return getattr(self.asked, name.replace(":", "_"))

    def __getitem__(self, name: str) -> Any:
        return getattr(self.asked, name)


def test_a_phase_has_the_faults_of_the_links_and_nodes_that_run() -> None:
    bed = NotedBed()
    changes = {"m:web": Change(delay=1.0), "db:m": Change(rate=1)}
    cut, silent, killed = ("m:web", "db:m"), ("web:end", "db:m"), ("m", "web")
    phase = Phase(seconds=2.0, name="faults", cut=cut, silent=silent, killed=killed, links=changes)
    run_phase(cast(Testbed, bed), phase, {"m:web": "db:web", "web:end": "web:end"}, bed.asked.wait)
    (seconds,) = bed.asked.wait.call_args.args
    assert 1.5 < seconds <= 2.0
    assert bed.asked.mock_calls == [
        call.db_web.cut(),
        call.web_end.silence(),
        call.db_web.set(delay=1.0),
        call.web.kill(),
        call.wait(seconds),
        call.db_web.restore(),
        call.web_end.restore(),
        call.web.start(),
    ]


def test_ctrl_c_does_not_wait_for_a_long_statement() -> None:
    runs, ends = threading.Event(), threading.Event()

    def execute(statement: str) -> None:
        runs.set()
        ends.wait(10.0)

    def interrupt() -> None:
        runs.wait()
        raise KeyboardInterrupt

    node = MagicMock()
    node.connect().cursor().__enter__().execute = execute
    load = Load.model_validate({"sql": "DO SLEEP(1000)", "every": "1s"})
    with pytest.raises(KeyboardInterrupt), _loads(cast(Testbed, {"db": node}), {"db": load}):
        interrupt()
    assert not ends.is_set()
    (thread,) = (one for one in threading.enumerate() if one.name.startswith("load_"))
    ends.set()
    thread.join()
