"""The commands of the demonstration, and its table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.testbed.demo.run import print_channels, run
from dumpfilter.testbed.values import NO_LAG, ChannelState, Place


def test_a_failed_command_is_an_error() -> None:
    with pytest.raises(DumpfilterError, match="dumpfilter inspect nowhere: exit code 1"):
        run("inspect", "nowhere")


def test_the_table_has_the_saved_share(capsys: pytest.CaptureFixture[str]) -> None:
    place = Place("bin.000001", 4)
    channel = ChannelState("", "master", place, place, "0-1-7", NO_LAG, bytes_received=100, bytes_dropped=900)
    print_channels(Console(width=80), {"shop": channel, "quiet": replace(channel, gtids="0-1-8")})
    said = capsys.readouterr().out
    assert "90.0 %" in said
    assert "GTID set of every slave: 0-1-7 / 0-1-8" in said
