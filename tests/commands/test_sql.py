"""``dumpfilter sql`` rejects addresses before it connects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.in_process import run


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:", "127.0.0.1:0", ":1", "127.0.0.1:99999"])
def test_address(address: str) -> None:
    done = run("sql", "--console", address)
    assert done.returncode == 2
    assert f"--console={address}: it is HOST:PORT" in done.stderr


def test_a_script_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "script.sql").write_bytes(b"SELECT '\xff'")
    done = run("sql", "--console", "127.0.0.1:1", str(tmp_path / "script.sql"))
    assert done.returncode == 2
    assert "script.sql: cannot be read: 'utf-8' codec can't decode" in done.stderr
    assert done.stderr.endswith("save the script as UTF-8\n")
