"""The loading of compiled code before a master serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.dump import many
from dumpfilter.master.preparation import load_compiled_code
from dumpfilter.master.store import BinlogStore
from tests.support import DATA

ROW = DATA / "oracle" / "mysql-row"


def test_it_runs_the_compiled_code(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    plan = many.K.plan_slaves

    def counted(*arguments: object) -> object:
        called.append(1)
        return plan(*arguments)

    monkeypatch.setattr(many.K, "plan_slaves", counted)
    store = BinlogStore(ROW)
    load_compiled_code(store)
    store.close()
    assert called


@pytest.mark.parametrize("damage", [b"", b"\xff" * 40], ids=["empty", "damaged"])
def test_an_unusable_newest_file_is_no_error(tmp_path: Path, damage: bytes) -> None:
    head = (ROW / "bin.000001").read_bytes()[:127]
    (tmp_path / "bin.000001").write_bytes(head + damage)
    (tmp_path / "bin.index").write_text("./bin.000001\n")
    store = BinlogStore(tmp_path)
    load_compiled_code(store)
    store.close()
