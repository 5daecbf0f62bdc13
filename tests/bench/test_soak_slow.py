"""Simulated slaves that are slow, lose their connections and change their filters receive exactly their events."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import _slaves, soak
from bench._common import Report


def test_slaves_receive_exactly_their_events_through_disturbances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each process of slaves costs a second of imports.
    monkeypatch.setattr(_slaves, "_PROCESSES", 1)
    report = Report("soak", "20 slaves live through 6 s of disturbances")
    growing, counted = soak.live(report, tmp_path, 20, 6.0)

    # The slaves of two of the 20 numbers vanish, and that of one changes its filter: both have happened.
    assert counted["vanished"] > 0
    assert counted["changes"] > 0
    assert len(growing.made.files) > 5
    met = {target.text: target.met for target in report.targets}
    assert met["connections that the master ended at most 0"]
    assert met["sockets left over at most 0"]
    assert met["files left open beside binlogs at most 0"]
