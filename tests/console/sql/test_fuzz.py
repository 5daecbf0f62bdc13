"""Statements in any spelling are read back, and broken ones give only the errors that a server gives."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dumpfilter.console.sql.server_errors import SqlError
from tests.console.sql.parsed import Command, parsed
from tests.console.sql.rendering import commands, spelled

ANSWERS = json.loads((Path(__file__).parent / "data" / "answers.json").read_text(encoding="utf-8"))
NUMBERS = frozenset(
    {
        1054,
        1059,
        1064,
        1065,
        1102,
        1103,
        1210,
        1235,
        1277,
        1292,
        1327,
        1426,
        1441,
        1525,
        1624,
        1729,
        1763,
        3056,
        3067,
    }
)
"""The errors that the parser can raise."""
PIECES = st.sampled_from(
    [
        *(
            "'",
            '"',
            "`",
            "/*",
            "*/",
            "/*!",
            "/*!99999",
            "--",
            "-- ",
            "#",
            "\n",
            ";",
            "\\",
            "\0",
            "(",
            ")",
            ",",
            "=",
            ".",
        ),
        *(
            "for channel",
            "''",
            "1e5",
            "0x",
            "9" * 30,
            "-",
            "->",
            "%",
            "é",
            "\ud800",
            "interval",
            "select",
            "@",
            "+",
        ),
    ]
)


def answer(text: str) -> Command | SqlError:
    try:
        return parsed(text)  # type: ignore[no-any-return]
    except SqlError as error:
        return error


@st.composite
def broken(draw: st.DrawFn) -> str:
    """Draw a statement from which parts were removed, doubled, or replaced by parts of other statements."""
    statements = st.sampled_from(list(ANSWERS)) | commands.flatmap(spelled)
    text = draw(statements)
    for _ in range(draw(st.integers(0, 4))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        put = draw(PIECES | st.text(max_size=3) | st.just("") | st.just(text[start:end] * 2) | statements)
        text = text[:start] + put + text[end:]
    return text


@settings(deadline=None)
@given(st.data(), commands)
def test_a_command_is_read_back_from_any_spelling(data: st.DataObject, command: Command) -> None:
    assert parsed(data.draw(spelled(command))) == command


@settings(deadline=None)
@given(broken())
@example("purge binary logs before date_sub(date_sub(")
@example("change replication filter replicate_do_db=(a) /*! /*! for channel 'x'")
def test_a_broken_statement_gives_a_servers_error(text: str) -> None:
    said = answer(text)
    assert isinstance(said, Command) or (said.number in NUMBERS and len(said.sqlstate) == 5)
