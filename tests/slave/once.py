"""Slaves in this process that run to the end of the newest binlog."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dumpfilter.filter import Filter
from dumpfilter.filter.rules import FilterOn
from dumpfilter.slave.channel import Channel, ChannelOptions
from dumpfilter.slave.targets import SummaryTarget
from dumpfilter.slave.threads.master_options import MasterOptions

AddressOf = Callable[[str], str]


def start_slave(
    address: str, directory: Path, options: list[str], *, filter_on: FilterOn = FilterOn.BOTH, **more: Any
) -> Channel:
    """Start a slave in this process. ``more`` are members of MasterOptions, and ``apply``."""
    apply = more.pop("apply", True)
    server_id = 1 + zlib.crc32(bytes(directory)) % 10**9
    slave = Channel(
        ChannelOptions(
            master=MasterOptions(
                **{"address": address, "server_id": server_id, "uuid": "", "once": True} | more
            ),
            relay_dir=directory,
            rules=Filter.from_options(options).rules,
            filter_on=filter_on,
            apply=apply,
        ),
        SummaryTarget(),
    )
    slave.start()
    return slave


def run_slave(address: str, directory: Path, options: list[str], **more: Any) -> Channel:
    """Run a slave to the end of the newest binlog."""
    slave = start_slave(address, directory, options, **more)
    slave.wait()
    return slave
