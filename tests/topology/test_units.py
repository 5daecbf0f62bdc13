"""Tests of rates, times, outages and speeds: each text that is written is read as the same value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.values import (
    format_rate,
    format_size,
    format_time,
    parse_rate,
    parse_size,
    parse_time,
)
from dumpfilter.topology import parse_string, recording
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
