"""``dumpfilter sql`` rejects addresses before it connects."""

from __future__ import annotations

import pytest

from tests.commands.in_process import run


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:", "127.0.0.1:0", ":1", "127.0.0.1:99999"])
def test_address(address: str) -> None:
    done = run("sql", "--master", address)
    assert done.returncode == 2
    assert f"--master={address}: it is HOST:PORT" in done.stderr
