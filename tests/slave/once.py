"""Slaves in this process with one channel, most of which run to the end of the newest binlog."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dumpfilter.filter.channels import ChannelFilters
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import FilterOn, Rule
from dumpfilter.slave.channels import Channel, Slave
from dumpfilter.slave.connection import Source
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.state import SourceInfo

AddressOf = Callable[[str], str]

_OPTIONS = SlaveOptions.model_fields.keys()


class Once:
    """A slave with one channel, whose attributes it has. ``more`` are members of SlaveOptions and SourceInfo."""

    def __init__(
        self,
        address: str,
        directory: Path,
        rules: tuple[Rule, ...],
        *,
        filter_on: FilterOn = FilterOn.BOTH,
        **more: Any,
    ) -> None:
        host, _, port = address.rpartition(":")
        more = {"server_id": 1 + zlib.crc32(bytes(directory)) % 10**9, "once": True, "retry_count": 0} | more
        filters = ChannelFilters()
        filters.startup(None, rules)
        source = {name: more[name] for name in more if name not in _OPTIONS}
        self.slave = Slave(
            SlaveOptions(relay_dir=directory, **{k: more[k] for k in more if k in _OPTIONS}),
            filters,
            [SourceInfo(host=host, port=int(port), filter_on=filter_on.value, **source)],
        )
        self.channel: Channel = self.slave.get("")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.channel, name)

    def wait(self) -> None:
        """Wait until both threads have ended, and close the slave. Raise the error that ended a thread."""
        self.slave.wait()
        self.slave.close()
        if self.slave.error is not None:
            raise self.slave.error

    def close(self) -> None:
        self.slave.close()


def source_of(host: str, port: int, **members: Any) -> Source:
    """Return the source of an I/O thread. ``members`` are those of Source, SlaveOptions and SourceInfo."""
    members = {"server_id": 7, "retry_count": 0} | members
    options = SlaveOptions(relay_dir=Path(), **{name: members[name] for name in members if name in _OPTIONS})
    own = {name: members[name] for name in members if name in ("uuid", "secret", "filter")}
    source = {name: members[name] for name in members if name not in _OPTIONS and name not in own}
    return Source(SourceInfo(host=host, port=port, **source), options, **own)


def start_slave(address: str, directory: Path, options: list[str], **more: Any) -> Once:
    """Start a slave in this process."""
    slave = Once(address, directory, Filter.from_options(options).rules, **more)
    slave.slave.start()
    return slave


def run_slave(address: str, directory: Path, options: list[str], **more: Any) -> Once:
    """Run a slave to the end of the newest binlog."""
    slave = start_slave(address, directory, options, **more)
    slave.wait()
    return slave
