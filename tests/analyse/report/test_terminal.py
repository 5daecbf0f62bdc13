"""The tables, the warnings and the JSON that commands print."""

from __future__ import annotations

from io import StringIO

import pytest
from pydantic import BaseModel
from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.report.terminal import output_console, print_json, table, warn

ODD = "a\x1b[2J\u202e[red]"


def test_plain_texts_are_escaped_and_are_no_markup() -> None:
    out = StringIO()
    console = Console(file=out, width=80)
    console.print(
        table(["name", "bytes"], [(ODD, "1"), (Text("two\nlines", "red"), "22")], numbers=["bytes"])
    )
    warn(console, ODD * 10)
    shown = out.getvalue()
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "│ a\\x1b[2J\\u202e[red] │     1 │" in shown
    assert "│ lines               │       │" in shown
    assert shown.splitlines()[-1].startswith("warning: a\\x1b[2J"), "a pipe gets a warning in one line"


def test_a_pipe_has_a_row_of_a_table_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output_console().print(table(["name", "place"], [("x" * 90, "binlog.000001:16783035")], framed=False))
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["name", "place"],
        ["x" * 90, "binlog.000001:16783035"],
    ]


def test_numbers_are_never_broken() -> None:
    out = StringIO()
    Console(file=out, width=20).print(
        table(["name", "n"], [("x" * 30, "1,234,567")], numbers=["n"], framed=False)
    )
    assert "1,234,567" in out.getvalue()
    assert sum(line.count("x") for line in out.getvalue().splitlines()) == 30


class _Result(BaseModel):
    name: str


@pytest.mark.parametrize("value", [_Result(name="a"), {"name": "a"}])
def test_json_of_models_and_dictionaries(value: BaseModel, capsys: pytest.CaptureFixture[str]) -> None:
    print_json(value)
    print_json(value, indent=None)
    lines = capsys.readouterr().out.replace('":"', '": "').splitlines()
    assert lines == ["{", ' "name": "a"', "}", '{"name": "a"}']
