"""Tests of rates, times, outages and speeds: each text that is written is read as the same value."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.values import (
    MOST_RATE,
    format_rate,
    format_size,
    format_time,
    parse_rate,
    parse_size,
    parse_time,
)
from dumpfilter.topology import link, make_topology, parse_string, recording, slave, to_toml, workload
from dumpfilter.topology.links.shape import Outage
from dumpfilter.topology.model import format_outage, parse_outage
from tests.topology.strategies import outages, rates, times


@given(rates)
def test_rates(bits: int) -> None:
    assert parse_rate(format_rate(bits)) == bits


@given(times)
def test_times(seconds: float) -> None:
    assert parse_time(format_time(seconds)) == seconds


@given(outages)
def test_outages(outage: Outage) -> None:
    assert parse_outage(format_outage(outage)) == outage


@given(st.integers(0, 1 << 60))
def test_sizes(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("text", "bits"),
    [("64bit", 64), ("512 kbit", 512_000), ("2Mbit/s", 2_000_000), ("0.5gbit", 500_000_000)],
)
def test_spellings_of_rates(text: str, bits: int) -> None:
    assert parse_rate(text) == bits


@pytest.mark.parametrize("text", ["", "2", "2mb", "2mbps", "-1kbit", "0kbit", "1.5bit", "1e3bit", "9999gbit"])
def test_a_wrong_rate_is_an_error_with_the_value(text: str) -> None:
    with pytest.raises(OptionError, match=f"^{text!r}.*rate"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["", "5", "5 weeks", "-5s", "0.1us", "1001d", "5S"])
def test_a_wrong_time_is_an_error_with_the_value(text: str) -> None:
    with pytest.raises(OptionError, match=f"^{text!r}.*time"):
        parse_time(text)


@pytest.mark.parametrize(
    "changes",
    [
        {"delay": math.inf},
        {"jitter": math.nan},
        {"delay": -0.1},
        {"delay": 1001 * 86_400},
        {"rate": 0},
        {"rate": MOST_RATE + 1},
    ],
    ids=str,
)
def test_a_number_that_no_text_means_is_an_error(changes: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=f"^{next(iter(changes))}: "):
        link(**changes)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.1 + 0.2, "300ms"), (0.0123456789, "12.346ms"), (1e-7, "0s")]
)
def test_a_number_of_seconds_is_written_to_the_microsecond(seconds: float, text: str) -> None:
    m = workload("m")
    assert f'delay = "{text}"' in to_toml(make_topology(m, slave("w", m, link=link("1mbit", delay=seconds))))


@pytest.mark.parametrize("text", ["60s", "60s-60s", "-60s", "a-b"])
def test_a_wrong_outage_is_an_error(text: str) -> None:
    with pytest.raises(OptionError):
        parse_outage(text)


@pytest.mark.parametrize("speed", ["0", "-1", "inf", "nan", "fast", 0, -1.5, True])
def test_a_wrong_speed_is_an_error(speed: object) -> None:
    with pytest.raises(OptionError, match=r"node r: speed: .* is not a speed"):
        recording("r", "bin.index", speed=speed)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "speed"), [("10", 10.0), ("0.5", 0.5), ("at-once", None)])
def test_speeds(text: str, speed: float | None) -> None:
    assert parse_string(f"r[binlogs=x, speed={text}]")["r-recording"].speed == speed
