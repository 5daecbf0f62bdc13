"""The question whether a source refuses a replica's GTIDs, asked of real servers and of dumpfilter in the same words.

``python -m tests.master.replicas.record_ahead PORT DATADIR`` asks a running server with binlogs in DATADIR. The server
is there for this purpose alone, and its root has no password. The answers go into ``data/ahead-mysql.json`` or
``data/ahead-mariadb.json`` beside this file.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql

from dumpfilter.binlog.gtid import MysqlGtidSet
from dumpfilter.binlog.gtid_events import encode_previous_gtids
from tests.master.replicas.serving import UUID, Replica

RECORDED = Path(__file__).parent / "data"
SERVER = "@server@"
"""The placeholder for the server's own UUID."""
FOREIGN = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
_TEXT_LIMIT = 511
_FATAL = 1236

_ROW = "INSERT INTO k.t VALUES (1)"


def _rows(*gtids: str) -> list[str]:
    """Return the statements that log transactions with these GTIDs of MariaDB."""
    made = []
    for gtid in gtids:
        domain, server, number = gtid.split("-")
        made += [
            f"SET SESSION gtid_domain_id={domain}",
            f"SET SESSION server_id={server}",
            f"SET SESSION gtid_seq_no={number}",
            _ROW,
        ]
    return made


MARIADB: dict[str, tuple[list[str], list[str]]] = {
    "one server": (
        _rows("0-1-1", "0-1-2", "0-1-3"),
        ["", "0-1-3", "0-1-1", "0-1-1000", "0-5-1000", "0-5-2", "0-5-3", "7-1-5", "0-1-3,7-1-5"],
    ),
    "two servers with holes": (
        _rows("0-1-1", "0-1-2", "0-1-5", "0-2-6", "0-1-8", "0-2-9"),
        ["0-1-3", "0-1-5", "0-1-7", "0-2-6", "0-2-7", "0-2-3", "0-3-7", "0-1-9", "0-3-10", "0-1-10", "0-2-9"],
    ),
    "out of order": (
        _rows("0-1-1", "0-1-10", "0-2-3", "0-2-4"),
        ["0-1-10", "0-2-4", "0-2-7", "0-3-7", "0-3-20", "0-1-11", "0-3-2"],
    ),
    "two files": (
        [*_rows("0-1-1", "0-2-2"), "FLUSH BINARY LOGS", *_rows("0-2-3", "7-1-1")],
        ["0-1-1", "0-2-2", "0-1-2", "0-2-3", "0-9-9", "0-9-2", "0-2-3,7-1-1", "0-2-3,7-1-2", "7-2-1"],
    ),
    "first a replica": (
        ["SET GLOBAL gtid_slave_pos='0-9-100'", *_rows("0-1-101")],
        ["0-9-100", "0-9-99", "0-9-101", "0-1-101", "0-1-100"],
    ),
}
MYSQL: dict[str, tuple[list[str], list[str]]] = {
    "own and foreign": (
        [_ROW, _ROW, _ROW, f"SET GTID_NEXT='{FOREIGN}:1'", "BEGIN", "COMMIT", "SET GTID_NEXT='AUTOMATIC'"],
        [
            f"{SERVER}:1-3",
            f"{SERVER}:1-2",
            "",
            f"{SERVER}:1-1000",
            f"{SERVER}:1-2:7",
            f"{SERVER}:7",
            f"{SERVER}:1-3,{FOREIGN}:1-5",
            f"{SERVER}:1-3:blue:1",
        ],
    ),
    "tags and two files": (
        [_ROW, "FLUSH BINARY LOGS", "SET GTID_NEXT='AUTOMATIC:blue'", _ROW, "SET GTID_NEXT='AUTOMATIC'"],
        [f"{SERVER}:1:blue:1", f"{SERVER}:1:blue:1-2", f"{SERVER}:1:red:1", f"{SERVER}:1-2"],
    ),
    "gtid_purged": (
        [f"SET GLOBAL gtid_purged='{SERVER}:1-10'", _ROW],
        [f"{SERVER}:1-10", f"{SERVER}:1-11", f"{SERVER}:1-12"],
    ),
}


def questions(family: str, gtids: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the questions about GTIDs: MariaDB's once for each mode of a replica."""
    for each in gtids:
        yield {"gtids": each}
        if family == "mariadb":
            yield {"gtids": each, "strict": 1}
            yield {"gtids": each, "duplicates": 1}


def ask(replica: Replica, question: dict[str, Any], family: str, server_uuid: str) -> str | None:
    """Ask a source for a dump up to the end of its binlog. Return the text of its error 1236, or None without one."""
    replica.greet(uuid=UUID if family == "mysql" else "", family=family)
    gtids = question["gtids"].replace(SERVER, server_uuid)
    try:
        if family == "mysql":
            replica.dump_gtid(encode_previous_gtids(MysqlGtidSet.parse(gtids)))
        else:
            replica.ask(f"SET @slave_connect_state='{gtids}'")
            replica.ask(f"SET @slave_gtid_strict_mode={question.get('strict', 0)}")
            replica.ask(f"SET @slave_gtid_ignore_duplicates={question.get('duplicates', 0)}")
            replica.dump()
        for _ in replica.events():
            pass
    except pymysql.err.MySQLError as error:
        number, text = error.args
        if number != _FATAL:
            raise
        return str(text)[:_TEXT_LIMIT]
    return None


def main(port: int, data: Path) -> None:
    """Ask a server all questions, and write its answers."""
    connection = pymysql.connect(host="127.0.0.1", port=port, user="root", autocommit=True)
    cursor = connection.cursor()

    def run(statement: str) -> Any:
        cursor.execute(statement)
        return cursor.fetchall()

    ((version,),) = run("SELECT VERSION()")
    family = "mariadb" if "MariaDB" in version else "mysql"
    server_uuid = "" if family == "mariadb" else run("SELECT @@server_uuid")[0][0]
    run("CREATE DATABASE IF NOT EXISTS k")
    run("CREATE TABLE IF NOT EXISTS k.t (a INT)")
    scenarios = {}
    for name, (statements, gtids) in (MARIADB if family == "mariadb" else MYSQL).items():
        run("RESET MASTER" if family == "mariadb" else "RESET BINARY LOGS AND GTIDS")
        if family == "mariadb":
            run("SET GLOBAL gtid_slave_pos=''")
        for statement in statements:
            run(statement.replace(SERVER, server_uuid))
        answers = []
        for question in questions(family, gtids):
            with Replica(port, "root", "") as replica:
                answers.append({**question, "error": ask(replica, question, family, server_uuid)})
        files = {
            row[0]: base64.b64encode((data / row[0]).read_bytes()).decode() for row in run("SHOW BINARY LOGS")
        }
        scenarios[name] = {"statements": statements, "files": files, "answers": answers}
    found = {"version": version, "uuid": server_uuid, "scenarios": scenarios}
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / f"ahead-{family}.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
