"""Statements in any spelling are read back, and broken ones give only the errors that a server gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dumpfilter.console.sql.commands import Command
from dumpfilter.console.sql.parser import parse_statement, split_statements
from dumpfilter.console.sql.server_errors import SqlError
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
        return parse_statement(text)
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
    assert parse_statement(data.draw(spelled(command))) == command


@settings(deadline=None)
@given(st.data(), st.lists(commands, min_size=1, max_size=4))
def test_statements_are_split_where_they_end(data: st.DataObject, some: list[Command]) -> None:
    texts = [data.draw(spelled(command)).rstrip(" \n;") for command in some]
    split = split_statements("\n;".join(texts) + data.draw(st.sampled_from(["", ";", "\n ; \n"])))
    assert [parse_statement(text) for text in split] == some


@settings(deadline=None)
@given(broken())
@example("purge binary logs before date_sub(date_sub(")
@example("change replication filter replicate_do_db=(a) /*! /*! for channel 'x'")
def test_a_broken_statement_gives_a_servers_error(text: str) -> None:
    said = answer(text)
    assert isinstance(said, Command) or (said.number in NUMBERS and len(said.sqlstate) == 5)


@settings(deadline=None)
@given(broken())
@example("")
def test_the_parts_of_a_split_are_the_text(text: str) -> None:
    at = 0
    for part in split_statements(text):
        start = text.index(part, at)
        assert not text[at:start].strip(" \t\n\v\f\r;")
        at = start + len(part)
    assert not text[at:].strip(" \t\n\v\f\r;")


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "';'", '";"', "`;`", "/*;*/ b", "b -- ;\n", "b # ;\n"]), max_size=5))
def test_semicolons_in_quotes_and_comments_split_nothing(parts: list[str]) -> None:
    # a semicolon at the very end is taken away even in a comment, as the server does it
    assert split_statements(";".join([*parts, "end"])) == [*(part.strip() for part in parts), "end"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        (" ; ; ", [""]),
        ("a; b", ["a", "b"]),
        # the server's parser meets a semicolon where a statement should begin
        (";a", [";a"]),
        ("a; ;b;c", ["a", ";b;c"]),
        ("a; /* c */ ;b", ["a", "/* c */ ;b"]),
        ("a; -- c\n", ["a", "-- c"]),
        ("a 'b;c", ["a 'b;c"]),
        ("a `b;c", ["a `b;c"]),
        ("a /* b;c", ["a /* b;c"]),
        ("a 'b\\", ["a 'b\\"]),
        ("a '\\';' ; b", ["a '\\';'", "b"]),
        ("a--b;c", ["a--b", "c"]),
    ],
)
def test_split(text: str, parts: list[str]) -> None:
    assert split_statements(text) == parts


def test_an_empty_statement_before_another_is_refused() -> None:
    with pytest.raises(SqlError, match="near ';b' at line 1"):
        parse_statement(split_statements("a;;b")[1])
