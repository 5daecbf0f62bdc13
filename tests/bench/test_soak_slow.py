"""Simulated slaves that are slow, lose their connections and change their filters receive exactly their events."""

from __future__ import annotations

from pathlib import Path

from bench import soak


def test_slaves_receive_exactly_their_events_through_disturbances(tmp_path: Path) -> None:
    found = soak.live(tmp_path, 20, 6.0)

    # The slaves of two of the 20 numbers vanish, and that of one changes its filter: both have happened.
    assert found.checked["vanished"] > 0
    assert found.checked["changes"] > 0
    assert len(found.growing.files) > 5
    assert found.checked["lost"] == 0
    assert found.gone.sockets <= found.baseline.sockets
    assert found.gone.files <= found.baseline.files + len(found.growing.files) - 1
