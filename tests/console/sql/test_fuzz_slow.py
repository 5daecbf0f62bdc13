"""Long statements are answered in linear time, with the errors that a server gives."""

from __future__ import annotations

import pytest

from dumpfilter.console.sql.commands import parse_statement
from dumpfilter.console.sql.server_errors import SqlError
from tests.console.sql.test_fuzz import NUMBERS, answer

MANY = 65_000
"""The characters of a long statement. In quadratic time one would take more than TIMEOUT."""

TIMEOUT = 10
"""The seconds in which a test must end. In linear time a test takes a hundredth of a second."""

HEADS = [
    "",
    "change replication filter replicate_do_db=",
    "change replication filter replicate_wild_do_table=(",
    "change master to rewrite=",
    "change master to ignore_server_ids=(",
    "start replica until source_log_pos=",
    "purge binary logs before ",
    "show binlog events in ",
]


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    "piece",
    [
        *(
            "(",
            "'",
            '"',
            "`",
            "\\'",
            "\\",
            "a",
            "é",
            "9",
            "1,",
            "0x",
            ".",
            "-",
            "--",
            "-- ",
            "#",
            "/*",
            "/**/",
            "/*!",
        ),
        *(
            "/*!99999 /*",
            "*/",
            ";",
            "a;",
            "';",
            "/*;",
            "date_sub(",
            "a,",
            "a.",
            "->",
            "a->",
            "\n",
            "\0",
            "'a' ",
            "e+",
        ),
    ],
)
def test_a_long_run_of_anything_is_answered(head: str, piece: str) -> None:
    text = head + piece * (MANY // len(piece))
    said = answer(text)
    assert not isinstance(said, SqlError) or (said.number in NUMBERS and len(said.message) < 1000)


def test_a_long_list_is_read() -> None:
    count = 6_000
    names = ",".join(f"`db{number}`" for number in range(count))
    command = parse_statement(f"change replication filter replicate_do_db=({names})")
    assert len(command.values["clauses"][0].rules) == count
