"""The address at which a master of the topology reads a server that runs already."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from dumpfilter.receiver.url import parse_source_url
from dumpfilter.testbed.ground import Ground
from dumpfilter.testbed.server_nodes import RunningServerNode
from dumpfilter.topology import running


@pytest.mark.parametrize("user", ["repl", "re@pl", "re:pl/?#%41"])
def test_any_users_name_is_in_the_address_for_a_master(tmp_path: Path, user: str) -> None:
    (tmp_path / "password").write_text("secret")
    (tmp_path / "password").chmod(0o600)
    spelled = "".join(f"%{byte:02X}" for byte in user.encode())
    url = f"mysql://{spelled}@db1:3306/?password-file={tmp_path / 'password'}"
    ground = cast("Ground", SimpleNamespace(directory=tmp_path))
    node = RunningServerNode(ground, running("db", url), [])
    found = parse_source_url(node.arguments_for_master(4711, "store")[0])
    assert (found.user, found.host, found.port) == (user, "127.0.0.1", 4711)
