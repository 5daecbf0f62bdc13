"""Ask a real server every statement of a scenario and write down what it answers, as JSON.

``python tests/console/record.py HOST PORT --scenario tests/console/scenarios/NAME.sql`` writes ``data/NAME.json``
next to the scenarios; ``data/README.md`` has the format and says how the servers are started. A scenario is a text of
statements, each ended by ``;`` at the end of a line, with lines of comment that direct the recording::

    -- server: OPTION …      the server's options in this scenario (told by --options; this script starts no server)
    -- before: STATEMENT     asked by --before, before the server is started again with its options
    -- source: STATEMENT     asked of the source by --source, before the scenario
    -- until: VALUE          the next statement is repeated until a value of its rows contains VALUE,
    -- until: COLUMN=VALUE   or until that column is VALUE in a row
    -- anything else is a comment
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import FIELD_TYPE

_TYPES = {
    code: name
    for name, code in vars(FIELD_TYPE).items()
    if isinstance(code, int) and name not in ("CHAR", "INTERVAL")
}


@dataclass(frozen=True)
class Step:
    """One statement; ``until`` as above, empty for once."""

    sql: str
    until: str = ""


@dataclass
class Scenario:
    """A scenario file's content."""

    name: str
    server: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    source: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Scenario:
        made = cls(path.stem)
        statement: list[str] = []
        until = ""
        for line in path.read_text(encoding="utf-8").splitlines():
            if not statement and (not line.strip() or line.startswith("--")):
                key, _, value = line[2:].partition(":")
                match key.strip():
                    case "server":
                        made.server += value.split()
                    case "before":
                        made.before.append(value.strip())
                    case "source":
                        made.source.append(value.strip())
                    case "until":
                        until = value.strip()
                continue
            statement.append(line)
            if line.endswith(";"):
                made.steps.append(Step("\n".join(statement)[:-1], until))
                statement, until = [], ""
        assert not statement, f"{path}: the last statement has no end: {statement}"
        return made


class Connection(pymysql.Connection):  # type: ignore[type-arg]
    """PyMySQL's, which also keeps the SQLSTATE of the last error: the error packet has it after the number."""

    last_sqlstate = ""

    def _read_packet(self, *args: Any) -> Any:
        packet_type = args[0] if args else pymysql.connections.MysqlPacket
        connection = self

        class Keeping(packet_type):  # type: ignore[misc, valid-type]
            def raise_for_error(self) -> None:
                connection.last_sqlstate = self._data[4:9].decode()
                super().raise_for_error()

        return super()._read_packet(Keeping)


_PATIENCE = 180
"""The longest wait for a state, seconds. A slave whose first attempt to connect fails waits a minute for the next."""


def ask(connection: Connection, step: Step) -> dict[str, Any]:
    """Return the server's answer as an entry of the recording."""
    end = time.monotonic() + _PATIENCE
    while True:
        answer = _ask_once(connection, step.sql)
        if not step.until or _holds(step.until, answer):
            break
        assert time.monotonic() < end, f"{step} never came true: {answer}"
        time.sleep(0.2)
    return {"sql": step.sql, **({"until": step.until} if step.until else {}), **answer}


def _holds(until: str, answer: dict[str, Any]) -> bool:
    column, equals, value = until.partition("=")
    names = [name for name, _ in answer.get("columns", [])]
    for row in answer.get("rows", []):
        if equals and str(row[names.index(column)]) == value:
            return True
        if not equals and any(until in str(one) for one in row):
            return True
    return False


def _ask_once(connection: Connection, sql: str) -> dict[str, Any]:
    with connection.cursor() as cursor:
        try:
            cursor.execute(sql)
        except pymysql.MySQLError as error:
            number, message = error.args
            state = connection.last_sqlstate
            warnings = [list(w) for w in _warnings(connection) if tuple(w)[1:] != (number, message)]
            answer: dict[str, Any] = {"error": [number, state, message]}
        else:
            answer = {"affected": cursor.rowcount}
            if cursor.description:
                answer = {"columns": [[d[0], _TYPES[d[1]]] for d in cursor.description]}
                answer["rows"] = [[_plain(value) for value in row] for row in cursor.fetchall()]
            # MariaDB still shows an earlier statement's error after one that does not touch the diagnostics area
            told = _warnings(connection) if cursor.warning_count else []
            warnings = [list(w) for w in told if w[0] != "Error"]
    return {**answer, **({"warnings": warnings} if warnings else {})}


def _warnings(connection: Connection) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW WARNINGS")
        return list(cursor.fetchall())


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value if value is None or isinstance(value, int | float | str) else str(value)


def written(recording: dict[str, Any]) -> str:
    """JSON that people can read: a line for each short thing, for each row of each entry."""

    def line(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    def entry(step: dict[str, Any]) -> str:
        parts = []
        for key, value in step.items():
            if key in ("rows", "warnings") and value:
                inner = ",\n   ".join(map(line, value))
                parts.append(f"{line(key)}: [\n   {inner}]")
            else:
                parts.append(f"{line(key)}: {line(value)}")
        return " {" + ",\n  ".join(parts) + "}"

    head = ",\n".join(f" {line(key)}: {line(value)}" for key, value in recording.items() if key != "steps")
    return "{\n" + head + ',\n "steps": [\n' + ",\n".join(map(entry, recording["steps"])) + "\n]}\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--scenario", type=Path, required=True)
    parser.add_argument("--output", type=Path, help="default: ../data/NAME.json seen from the scenario")
    parser.add_argument("--error-log", type=Path, help="the server's; its replication warnings are kept")
    parser.add_argument("--user", default="root")
    parser.add_argument("--options", action="store_true", help="only print the server's options")
    parser.add_argument("--before", action="store_true", help="only ask what is asked before the restart")
    parser.add_argument("--source", action="store_true", help="only ask what is asked of the source")
    given = parser.parse_args()
    scenario = Scenario.read(given.scenario)
    if given.options:
        for option in scenario.server:
            print(option)
        return
    connection = Connection(
        host=given.host, port=given.port, user=given.user, charset="utf8mb4", autocommit=True
    )
    for asked in (given.before and scenario.before) or (given.source and scenario.source) or []:
        connection.cursor().execute(asked)
    if given.before or given.source:
        return
    recording: dict[str, Any] = {"scenario": scenario.name, "version": connection.get_server_info()}
    recording |= {"server": scenario.server, "before": scenario.before, "source": scenario.source}
    if given.error_log:
        lines = given.error_log.read_text(encoding="utf-8", errors="replace").splitlines()
        recording["error_log"] = [text.split(" ", 2)[2] for text in lines if "filter(s)" in text]
    recording["steps"] = [ask(connection, step) for step in scenario.steps]
    output = given.output or given.scenario.parent.parent / "data" / f"{scenario.name}.json"
    output.write_text(written(recording), encoding="utf-8")
    print(f"{output}: {len(recording['steps'])} statements", file=sys.stderr)


if __name__ == "__main__":
    main()
