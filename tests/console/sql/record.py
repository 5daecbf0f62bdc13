"""Record what a real server's parser answers to the statements of ``data/statements.sql``.

``python tests/console/sql/record.py HOST PORT`` (root without a password) writes ``data/answers.json``. For each
statement the file has the number, SQLSTATE and message of its error. It has null where the parser had nothing to say:
the server carried the statement out, or refused it later.

Use a server of its own for this: it needs a binlog, and the script creates and removes replication channels on it.
The recording here is of MySQL 9.7.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pymysql

DATA = Path(__file__).parent / "data"
FROM_EXECUTION = frozenset({1220, 1373, 1742, 1776, 1777, 1794, 3074, 3076, 3139, 3926})
"""Errors that the server raises after its parser has accepted the statement."""


def statements() -> list[str]:
    """Return the statements: the paragraphs of the file except its own comments."""
    text = (DATA / "statements.sql").read_text(encoding="utf-8")
    return [part.strip("\n") for part in text.split("\n\n") if part.strip() and not part.startswith("-- ==")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    given = parser.parse_args()
    with pymysql.connect(host=given.host, port=given.port, user="root", charset="utf8mb4") as connection:
        answers = {statement: _ask(connection.cursor(), statement) for statement in statements()}
    text = json.dumps(answers, ensure_ascii=False, indent=1)
    (DATA / "answers.json").write_text(text + "\n", encoding="utf-8")


def _ask(cursor: Any, statement: str) -> dict[str, str | int] | None:
    try:
        cursor.execute(statement)
        cursor.fetchall()
    except pymysql.MySQLError as error:
        number, message = error.args
        answer = {"number": number, "sqlstate": error.sqlstate, "message": message}
    else:
        answer = {}
    cursor.execute("RESET REPLICA ALL")
    return answer if answer and answer["number"] not in FROM_EXECUTION else None


if __name__ == "__main__":
    main()
