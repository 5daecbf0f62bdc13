"""The start of a master process, and what it says on the terminal."""

from __future__ import annotations

import io
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from dumpfilter.base import logs
from dumpfilter.base.errors import OptionError, PortTaken
from dumpfilter.master import process
from dumpfilter.master.options import MasterOptions
from dumpfilter.master.server import ListenAddress
from tests.commands.in_process import run
from tests.log_state import reset_logs
from tests.support import DATA

ROW = DATA / "oracle" / "mysql-row"


@pytest.fixture
def quiet_at_the_end() -> Iterator[None]:
    yield
    reset_logs()


@pytest.mark.parametrize(
    ("level", "said"), [("info", "serving bin.000001\n"), ("warning", ""), ("error", "")]
)
@pytest.mark.usefixtures("quiet_at_the_end")
def test_announcements_have_the_level_info(level: str, said: str) -> None:
    logs.configure(level=logs.Level(level))
    out = io.StringIO()
    process._announce(Console(file=out), "serving bin.000001", "serving", first="bin.000001")
    assert out.getvalue() == said


def test_a_master_on_a_taken_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        listen = ListenAddress(port=other.getsockname()[1])
        with pytest.raises(OptionError, match="another program listens on the port already") as caught:
            process.run_master(
                MasterOptions(binlogs=[str(ROW)]), process.RunOptions(listen=listen), Console()
            )
    assert isinstance(caught.value, PortTaken)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "the binlog set is missing: name it as BINLOGS"),
        (["--source=mysql://u@127.0.0.1/"], "--store=DIRECTORY is missing"),
        (
            [ROW, "--replica-port=0", "--port-file=p"],
            "--port-file is for slaves of dumpfilter, which have no port with --replica-port alone",
        ),
        (
            [ROW, "--replica-port=0", "--tls-require-slave-cert"],
            "--tls-require-slave-cert is for slaves of dumpfilter",
        ),
    ],
)
def test_options_that_do_not_fit(options: list[str | Path], said: str) -> None:
    done = run("master", *options)
    assert done.returncode == OptionError.exit_code
    assert said in done.stderr
