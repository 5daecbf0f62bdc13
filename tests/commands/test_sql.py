"""``dumpfilter sql``: addresses are rejected before a connection; tables are printed as by the ``mariadb`` client."""

from __future__ import annotations

import io
import sys

import pytest

from dumpfilter.commands.sql import Format, render
from tests.commands.in_process import run


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:", "127.0.0.1:0", ":1", "127.0.0.1:99999"])
def test_address(address: str) -> None:
    done = run("sql", "--console", address)
    assert done.returncode == 2
    assert f"--console={address}: write HOST:PORT" in done.stderr


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"], ids=["locale", "no locale"])
def test_a_script_that_is_not_utf8(errors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script = io.BytesIO(b"SELECT 1; SELECT '\xff'")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(script, "utf-8", errors))
    done = run("sql", "--console", "127.0.0.1:1")
    assert done.returncode == 2
    assert "standard input: cannot be read: 'utf-8' codec can't decode" in done.stderr
    assert done.stderr.endswith("save the script as UTF-8\n")


def test_wide_characters_and_control_characters() -> None:
    assert render(Format.TABLE, ["名前"], [False], [["é"]]).splitlines() == [
        "+------+",
        "| 名前 |",
        "+------+",
        "| é    |",
        "+------+",
    ]
    assert render(Format.TSV, ["a"], [False], [["x\ty\\z\n"], [None], [1.0]]) == "a\nx\\ty\\\\z\\n\nNULL\n1\n"
    assert render(Format.TABLE, ["a"], [True], []) == ""


def test_a_table_that_is_too_wide_is_written_vertically() -> None:
    names = [f"column_{number}" for number in range(60)]
    answer = names, [False] * 60, [["value"] * 60]
    assert render(None, *answer, width=80) == render(Format.VERTICAL, *answer)
    assert render(None, *answer, width=10_000) == render(Format.TABLE, *answer)
    short = ["a"], [True], [[1]]
    assert render(None, *short, width=5) == render(Format.TABLE, *short)
    assert render(None, *short, width=4) == render(Format.VERTICAL, *short)
    assert render(None, ["a"], [True], [], width=80) == ""
