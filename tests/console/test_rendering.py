"""Tables and tab-separated values as the ``mariadb`` client prints them."""

from __future__ import annotations

from dumpfilter.console.rendering import Format, render, render_within


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
    assert render_within(80, *answer) == render(Format.VERTICAL, *answer)
    assert render_within(10_000, *answer) == render(Format.TABLE, *answer)
    short = ["a"], [True], [[1]]
    assert render_within(5, *short) == render(Format.TABLE, *short)
    assert render_within(4, *short) == render(Format.VERTICAL, *short)
    assert render_within(80, ["a"], [True], []) == ""
