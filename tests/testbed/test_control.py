"""The control socket of a running topology."""

from __future__ import annotations

import errno
import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from dumpfilter.testbed.directory import ControlServer, ask

if TYPE_CHECKING:
    from dumpfilter.testbed.bed import Testbed


def test_a_lack_of_descriptors_ends_no_control_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accept, failures = socket.socket.accept, [errno.EMFILE, errno.ECONNABORTED]

    def fails_first(self: socket.socket) -> tuple[socket.socket, Any]:
        if failures:
            raise OSError(failures.pop(), "failed")
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", fails_first)
    answers: list[str] = []
    with ControlServer(cast("Testbed", SimpleNamespace(directory=tmp_path))):
        asking = threading.Thread(target=lambda: answers.append(ask(tmp_path, "directory")), daemon=True)
        asking.start()
        asking.join(120)
        assert answers == [str(tmp_path)]
