"""The process of a slave, run in this process."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dumpfilter.base.endings import ending_at_signals
from dumpfilter.filter.channels import ChannelFilters
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.process import run_slave
from dumpfilter.slave.state import SourceInfo, lock_directory


class Ports:
    """Ports of a slave whose process gets SIGTERM while they are opened."""

    channels = {}  # noqa: RUF012
    replicas = staticmethod(list)

    @contextmanager
    def serving(self, *_: object) -> Iterator[None]:
        signal.raise_signal(signal.SIGTERM)
        yield


def test_sigterm_while_a_slave_starts(tmp_path: Path) -> None:
    """The exit code was that of Ctrl-C."""
    options = SlaveOptions(relay_dir=tmp_path, server_id=7)
    with ending_at_signals(), pytest.raises(SystemExit) as ended:
        run_slave(options, ChannelFilters(), [SourceInfo(host="127.0.0.1", port=1)], ports=Ports())
    assert ended.value.code == 143
    lock_directory(tmp_path, patience=0.0).release()
