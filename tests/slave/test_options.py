"""The ports of a slave's channels, as options name them, and the options that belong to a port."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.slave.options import EdgeOptions, parse_ports


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


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (EdgeOptions(serve_port_file=Path("p"), replica_port=["0"]), "--serve-port-file needs --serve-port"),
        (
            EdgeOptions(replica_port_file=Path("p"), serve_port=["0"]),
            "--replica-port-file needs --replica-port",
        ),
        (EdgeOptions(config=Path("edge.toml")), "--config has the users of --serve-port and --replica-port"),
    ],
)
def test_options_of_a_port_need_the_port(options: EdgeOptions, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        options.check()


def test_options_with_their_ports_are_right() -> None:
    EdgeOptions(serve_port=["0"], serve_port_file=Path("s"), config=Path("edge.toml")).check()
    EdgeOptions(replica_port=["m1=0"], replica_port_file=Path("r"), config=Path("edge.toml")).check()
    EdgeOptions().check()
