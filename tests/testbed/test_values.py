"""Places, lags, and the values of a status."""

from __future__ import annotations

import json

from dumpfilter.testbed.values import NOWHERE, ChannelState, Lag, NodeStatus, Place, TestbedStatus


def test_places_compare_by_the_number_of_their_file() -> None:
    places = [NOWHERE, Place("bin.000009", 500), Place("bin.000010", 4), Place("bin.1000000", 4)]
    assert sorted([places[2], places[0], places[3], places[1]]) == places
    assert Place("bin.000001", 4) <= Place("bin.000001", 4)
    assert Place("bin.000001", 5) > Place("bin.000001", 4)


def test_a_status_is_json() -> None:
    channel = ChannelState("", "m", Place("b.1", 9), Place("b.1", 4), "0-1-2", Lag(1.5, 5))
    node = NodeStatus("web", "slave", "running", channels=(channel,), problems=("web: broken",))
    status = TestbedStatus("t", "/tmp/x", 1, {"web": node}, {}, 2.0, node.problems)
    found = json.loads(json.dumps(status.as_dict()))
    assert found["nodes"]["web"]["channels"][0]["applied"] == {"file": "b.1", "position": 4}
    assert found["nodes"]["web"]["channels"][0]["lag"] == {"seconds": 1.5, "bytes": 5}
    assert found["problems"] == ["web: broken"]
