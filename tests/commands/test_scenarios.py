from __future__ import annotations

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.commands.scenarios import parse_loads, parse_sweep, searches_of, settings_of
from dumpfilter.simulation.results import Setting, Variant

LINKS = ["m:web", "m:hr"]


def test_sweeps_of_rate_and_delay_are_combined_with_loads_and_variants() -> None:
    sweeps = [parse_sweep("rate=1mbit,2mbit", LINKS), parse_sweep("delay=0s,50ms", LINKS)]
    settings = settings_of([Variant.MASTER], (1.0, 2.0), sweeps)
    assert len(settings) == 2 * 2 * 2
    assert settings[-1] == Setting(variant=Variant.MASTER, load=2, rate=2_000_000, delay=50_000)


def test_a_search_may_name_a_link() -> None:
    (search,) = searches_of(["m:web.delay"], [Variant.NONE], [1.0], LINKS)
    assert (search.what, search.setting.link) == ("delay", "m:web")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("rate", "write what to vary and its values"),
        ("rate=", "write what to vary and its values"),
        ("rat=1mbit", "'rat' is neither rate nor delay.*rate"),
        ("m:we.rate=1mbit", "there is no link 'm:we'.*m:web"),
        ("rate=1mbit,fast", "--sweep .*'fast' is not a rate"),
        ("delay=5", "'5' is not a time"),
    ],
)
def test_sweeps_that_cannot_be_used(text: str, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        parse_sweep(text, LINKS)


@pytest.mark.parametrize("text", ["", "0", "-1", "1,x", "inf", "nan"])
def test_loads_that_cannot_be_used(text: str) -> None:
    with pytest.raises(OptionError, match="--scale-load"):
        parse_loads(text)


def test_sweeps_of_different_links_are_refused() -> None:
    sweeps = [parse_sweep("m:web.rate=1mbit", LINKS), parse_sweep("m:hr.delay=1s", LINKS)]
    with pytest.raises(OptionError, match="both of one link"):
        settings_of([Variant.MASTER], [1.0], sweeps)
