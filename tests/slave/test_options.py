"""The ports of a slave's channels, as options name them."""

from __future__ import annotations

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.slave.options import parse_ports


def test_channels_have_lower_case_names() -> None:
    assert parse_ports(["3309", "Web=3310"], "--replica-port") == {"": 3309, "web": 3310}
    assert parse_ports(["M1=0"], "--serve-port") == {"m1": 0}


@pytest.mark.parametrize(
    ("texts", "wrong"),
    [
        (
            ["m1=3310", "M1=3311"],
            "--serve-port=M1=3311: there is another one for channel 'm1'; give each a name",
        ),
        (["m1=x"], "--serve-port=m1=x: give a port from 0 to 65535, or CHANNEL=PORT"),
        (["65536"], "--serve-port=65536: give a port from 0 to 65535, or CHANNEL=PORT"),
    ],
)
def test_ports_that_cannot_be_used(texts: list[str], wrong: str) -> None:
    with pytest.raises(OptionError) as error:
        parse_ports(texts, "--serve-port")
    assert str(error.value) == wrong
