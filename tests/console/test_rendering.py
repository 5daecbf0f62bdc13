"""Tables and tab-separated values as the ``mariadb`` client prints them."""

from __future__ import annotations

from dumpfilter.console.rendering import Format, render


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
