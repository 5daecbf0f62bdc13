"""Fuzz the parser of the console's statements; README.md describes how."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["dumpfilter.console.sql", "dumpfilter.binlog.statement"]):
    from dumpfilter.console.sql import commands
    from dumpfilter.console.sql.server_errors import SqlError

ANSWERS = Path(__file__).parent.parent / "tests" / "console" / "sql" / "data" / "answers.json"


def check(data: bytes) -> None:
    """Check one input: it is a command or an SqlError."""
    # the parser gets bytes that are no UTF-8 as lone surrogates
    text = data.decode("utf-8", "surrogateescape")
    try:
        commands.parse_statement(text)
    except SqlError as error:
        str(error).encode("utf-8", "surrogateescape")


def main() -> None:
    with tempfile.TemporaryDirectory() as seeds:
        for number, statement in enumerate(json.loads(ANSWERS.read_text(encoding="utf-8"))):
            Path(seeds, str(number)).write_text(statement, encoding="utf-8")
        folders = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
        # libFuzzer writes to the first folder only
        own = [] if folders else [str(Path(seeds, "found"))]
        for folder in own:
            Path(folder).mkdir()
        atheris.Setup([*sys.argv, *own, seeds], check)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
