"""The process of a slave, run in this process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dumpfilter.base.endings import ending_at_signals
from dumpfilter.console.port import ConnectionDirectory
from dumpfilter.console.sql.commands import Executor, parse_statement
from dumpfilter.filter.channels import ChannelFilters
from dumpfilter.slave.channels import Slave
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.process import run_slave
from dumpfilter.slave.state import SourceInfo, lock_directory


class Ports:
    """Ports of a slave. While they are opened, ``meanwhile`` is called with the executor of statements."""

    channels = {}  # noqa: RUF012
    replicas = staticmethod(list)

    def __init__(self, meanwhile: Callable[[Executor], object]) -> None:
        self._meanwhile = meanwhile

    @contextmanager
    def serving(self, slave: Slave, executor: Executor, directory: ConnectionDirectory) -> Iterator[None]:
        self._meanwhile(executor)
        yield


def test_sigterm_while_a_slave_starts(tmp_path: Path) -> None:
    """The exit code was that of Ctrl-C."""
    options = SlaveOptions(relay_dir=tmp_path, server_id=7)
    ports = Ports(lambda executor: signal.raise_signal(signal.SIGTERM))
    with ending_at_signals(), pytest.raises(SystemExit) as ended:
        run_slave(options, ChannelFilters(), [SourceInfo(host="127.0.0.1", port=1)], ports=ports)
    assert ended.value.code == 143
    lock_directory(tmp_path, patience=0.0).release()


def test_a_statement_during_the_start_is_executed_after_the_start(tmp_path: Path) -> None:
    """A slave without a console ends when its threads have ended. STOP REPLICA found none, and they started later."""
    options = SlaveOptions(relay_dir=tmp_path, server_id=7)
    is_late = threading.Event()

    def give_up() -> None:
        is_late.set()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def stop(executor: Executor) -> None:
        command = parse_statement("STOP REPLICA")
        client = threading.Thread(target=executor.execute, args=(command,), daemon=True)
        client.start()
        client.join(0.2)

    timer = threading.Timer(60.0, give_up)
    timer.start()
    run_slave(options, ChannelFilters(), [SourceInfo(host="127.0.0.1", port=1)], ports=Ports(stop))
    timer.cancel()
    assert not is_late.is_set()
