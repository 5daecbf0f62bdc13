"""The progress bars of commands that read a server's binlog files."""

from __future__ import annotations

import io

from rich.console import Console

from dumpfilter.commands.file_bar import CatchUpBar, FileBar
from dumpfilter.v1 import dumpfilter_pb2 as pb

MIB = 1 << 20


class _Master:
    def Status(self, request: pb.StatusRequest, timeout: float) -> pb.StatusResponse:
        files = [pb.BinlogFile(name=f"bin.00000{number}", size=4 * MIB) for number in (1, 2)]
        return pb.StatusResponse(files=files)


def shown(bar_type: type[FileBar], *, is_terminal: bool) -> str:
    out = io.StringIO()
    bar = bar_type(Console(file=out, width=100, force_terminal=is_terminal, color_system=None))
    with bar:
        if isinstance(bar, CatchUpBar):
            bar.on_connect("c", _Master(), pb.RegisterResponse())  # type: ignore[arg-type]
            bar.on_chunk("c", pb.Chunk(file="bin.000002", end_position=2 * MIB))
        else:
            bar.show("", "bin.000001", 3 * MIB, None)
            bar.show("", "bin.000001", 3 * MIB + 1, None)
    return out.getvalue()


def test_a_slave_shows_the_part_of_all_files() -> None:
    assert "c bin.000002" in shown(CatchUpBar, is_terminal=True)
    assert "6.3/8.4 MB" in shown(CatchUpBar, is_terminal=True)


def test_files_of_unknown_size_have_no_length() -> None:
    assert "bin.000001" in shown(FileBar, is_terminal=True)
    assert "3.1/? MB" in shown(FileBar, is_terminal=True)


def test_a_pipe_gets_nothing() -> None:
    assert not shown(CatchUpBar, is_terminal=False)
    assert not shown(FileBar, is_terminal=False)
