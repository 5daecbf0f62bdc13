"""The loading of compiled code before a master serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dumpfilter.binlog.statement import _shape
from dumpfilter.dump import cut
from dumpfilter.dump.packets import _kernels
from dumpfilter.master.preparation import load_compiled_code
from dumpfilter.master.store import BinlogStore
from tests.support import DATA

ROW = DATA / "oracle" / "mysql-row"


KERNELS = ((cut, "plan"), (cut, "gather"), (_shape, "shape"))
FOR_REPLICAS = ((_kernels, "frame"), (_kernels, "weave"))


@pytest.mark.parametrize("replicas", [False, True])
def test_it_runs_the_compiled_code(monkeypatch: pytest.MonkeyPatch, replicas: bool) -> None:
    called = set()

    def count(module: Any, name: str) -> None:
        kernel = getattr(module, name)

        def counted(*arguments: object) -> object:
            called.add((module, name))
            return kernel(*arguments)

        monkeypatch.setattr(module, name, counted)

    for module, name in (*KERNELS, *FOR_REPLICAS):
        count(module, name)
    store = BinlogStore(ROW)
    load_compiled_code(store, replicas=replicas)
    store.close()
    assert called == {*KERNELS, *(FOR_REPLICAS if replicas else ())}


@pytest.mark.parametrize("damage", [b"", b"\xff" * 40], ids=["empty", "damaged"])
def test_an_unusable_newest_file_is_no_error(tmp_path: Path, damage: bytes) -> None:
    head = (ROW / "bin.000001").read_bytes()[:127]
    (tmp_path / "bin.000001").write_bytes(head + damage)
    (tmp_path / "bin.index").write_text("./bin.000001\n")
    store = BinlogStore(tmp_path)
    load_compiled_code(store)
    store.close()
