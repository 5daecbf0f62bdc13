"""The part of the demonstration with real servers: what it prints, and what it leaves behind."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from dumpfilter.testbed.demo.run import demonstrate
from dumpfilter.testbed.servers.server import find_program


def test_the_law_holds_and_nothing_is_left(tmp_path: Path) -> None:
    out = io.StringIO()
    demonstrate(Console(file=out, highlight=False, width=100), find_program("mariadb"), tmp_path)
    assert "law: tables, checksums and GTID position equal" in out.getvalue()
    assert "of shop and logs only shop, with 240 orders" in out.getvalue()
    # The password is in no file any more.
    assert sorted(path.name for path in (tmp_path / "servers").rglob("*.*")) == [
        "dumpfilter.log",
        "reference-of-replica.log",
        "replica.log",
        "source.log",
    ]
