"""Compare the messages with what MySQL 9.7's ``perror`` prints for their numbers (``data/messages.txt``)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dumpfilter.console.sql.result import Note
from dumpfilter.console.sql.server_errors import ER_PARSE_ERROR, ER_WRONG_DB_NAME, MESSAGES, syntax_error

ROOT = Path(__file__).parents[3]
NAME = re.compile(r"(ER|WARN)_[A-Z_]+")
PERROR = re.compile(r"MySQL error code MY-0*(\d+) \((?:OBSOLETE_)?(\w+)\): (.*)")
OF_ANOTHER_NAME = {
    "ER_OUT_OF_CONSOLE_MEMORY": "ER_OUT_OF_RESOURCES",
    "ER_WRONG_DATETIME_VALUE": "ER_TRUNCATED_WRONG_VALUE",
    "ER_WRONG_ARGUMENT_LF": "ER_WRONG_VALUE",
}
OF_ANOTHER_TEXT = {
    *("ER_WRONG_DATETIME_VALUE", "ER_WRONG_ARGUMENT_LF", "ER_OUT_OF_RESOURCES", "ER_STACK_OVERRUN_NEED_MORE"),
    *(
        "ER_OUT_OF_CONSOLE_MEMORY",
        "ER_UNKNOWN_ERROR",
        "ER_UNKNOWN_STMT_HANDLER",
    ),
}


def printed() -> dict[int, tuple[str, str]]:
    text = (Path(__file__).parent / "data" / "messages.txt").read_text(encoding="utf-8")
    matches = [PERROR.fullmatch(line) for line in text.splitlines()]
    return {int(match[1]): (match[2], match[3]) for match in matches if match}


@pytest.mark.parametrize("name", [name for name in MESSAGES if not name.startswith("ER_MARIADB_")])
def test_a_message_is_the_servers(name: str) -> None:
    message = MESSAGES[name]
    symbol, text = printed()[message.number]
    assert OF_ANOTHER_NAME.get(name, name) == symbol
    if name not in OF_ANOTHER_TEXT:
        # C's conversions, as Python spells them
        assert message.text == re.sub("%l*u", "%d", text.replace("%-.", "%."))


def test_a_precision_counts_bytes_and_a_half_character_is_sent_as_it_is() -> None:
    assert ER_WRONG_DB_NAME("é" * 60).message == f"Incorrect database name '{'é' * 50}'"
    assert ER_WRONG_DB_NAME("a" + "é" * 60).message == f"Incorrect database name 'a{'é' * 49}\xc3'"
    assert ER_PARSE_ERROR("x", "a\ud800b\0c", 1).message == "x near 'a\ud800b' at line 1"


def test_a_message_is_an_error_or_a_row_of_warnings() -> None:
    error = ER_WRONG_DB_NAME("a")
    assert (error.number, error.sqlstate, error.message) == (1102, "42000", "Incorrect database name 'a'")
    assert str(error) == "ERROR 1102 (42000): Incorrect database name 'a'"
    assert ER_WRONG_DB_NAME.note("a") == Note("Note", 1102, "Incorrect database name 'a'")
    assert ER_WRONG_DB_NAME.warning("a") == Note("Warning", 1102, "Incorrect database name 'a'")


def test_a_syntax_error_tells_the_line() -> None:
    assert str(syntax_error("a\nb\nc d", 6)).endswith("near 'd' at line 3")
    assert str(syntax_error("a\n", 2)).endswith("near '' at line 2")


def test_the_table_has_the_messages_that_the_product_sends() -> None:
    """Every name in the code is in the table, which mypy cannot know, and no message is without use."""
    used = set()
    # dumpfilter/master and dumpfilter/slave are links to directories beside the package.
    paths = [path for name in ("dumpfilter", "master", "slave") for path in (ROOT / name).rglob("*.py")]
    for path in paths:
        text = path.read_text(encoding="utf-8")
        if "server_errors" in text:
            for node in ast.walk(ast.parse(text)):
                match node:
                    case ast.Name(name) | ast.Attribute(attr=name) | ast.alias(name) if NAME.fullmatch(name):
                        used.add(name)
    assert used | {"ER_PARSE_ERROR", "ER_CAPACITY_EXCEEDED"} == set(MESSAGES)
