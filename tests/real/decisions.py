"""``python -m tests.real.decisions mariadb|mysql``: compare the decisions about odd statements with real replicas'.

A real source runs an odd workload (tests/real/odd_sets.py). One replica follows with each of several random filters.
Each workload becomes a recording in the form of tests/oracle/data, and each transaction is judged:

- *LOST*: the replica executed the statement, and the filter would drop it.
- *LOOSE*: the replica shows no trace of the statement, and the filter would send it as surely executed. Some
  statements, such as a DROP TRIGGER IF EXISTS, leave no trace where they ran.
- *ROWS*: the master's filtered stream and the replica differ in the tables whose rows they changed.
- *undecided*: the filter cannot tell.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
from pymysql.cursors import DictCursor

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.statement.statement import StatementKind as K
from dumpfilter.filter.base import Verdict
from dumpfilter.testbed.values import Place
from tests.oracle.recordings import Recording, filter_of
from tests.oracle.test_recordings_slow import test_the_law_and_the_rows as judge_rows
from tests.oracle.test_statements import Logged, leaves_no_trace, statements_of
from tests.real.odd_sets import OddWorkload, objects_of, odd_rules
from tests.real.server import _OWN, RealServer, Servers, ports_from

WAIT = 60.0
"""The longest wait for a replica, seconds."""

SOURCE_OPTIONS = ("--log-bin-trust-function-creators=1",)
VARIANTS = {
    "mysql": (
        (),
        ("--binlog-transaction-compression=ON", "--binlog-checksum=NONE"),
        (
            "--binlog-row-image=MINIMAL",
            "--binlog-rows-query-log-events=ON",
            "--binlog-row-value-options=PARTIAL_JSON",
        ),
        ("--lower-case-table-names=1",),
    ),
    "mariadb": (
        (),
        ("--log-bin-compress=ON", "--log-bin-compress-min-len=10", "--binlog-checksum=NONE"),
        ("--binlog-row-image=MINIMAL", "--binlog-annotate-row-events=ON", "--binlog-alter-two-phase=ON"),
        ("--lower-case-table-names=1",),
    ),
}
"""The options of a source, by family and variant. The replica has lower_case_table_names, too."""

REPLICA_OPTIONS = {
    "mysql": (
        "--replica-parallel-workers=0",
        "--log-bin-trust-function-creators=1",
        "--replica-skip-errors=all",
    ),
    "mariadb": ("--gtid-strict-mode=OFF", "--log-warnings=4", "--log-bin-trust-function-creators=1"),
}
"""The options of a replica. MySQL skips errors and names the transactions, and MariaDB stops at each error."""

FAILED = re.compile(
    r"Error '.*' on query|Could not execute \w+ event|Error executing row event|Error_code: (MY-)?\d+"
)


class Recorder:
    """A source and a replica, which take one workload after the other."""

    def __init__(self, servers: Servers, variant: int) -> None:
        self.family = servers.family
        self.variant = variant
        options = VARIANTS[self.family][variant]
        self.source = servers.new(f"source{variant}", 11, *SOURCE_OPTIONS, *options)
        self.lower_case = int("--lower-case-table-names=1" in options)
        own = ("--binlog-format=mixed", *REPLICA_OPTIONS[self.family], *(options if self.lower_case else ()))
        self.replica = servers.new(f"replica{variant}", 22, *own)
        self.source.start()
        self.replica.start()

    def _run(self, seed: int, binlog_format: str, most: int) -> list[str]:
        source = self.source
        source.empty()
        file = source.directory / "load.txt"
        file.write_text("1\n2\n")
        workload = OddWorkload(seed, self.family, str(file))
        charsets = random.Random(seed).choices(("utf8mb4", "latin1", "gbk", "cp932"), (6, 2, 1, 1), k=3)
        sessions = [self._session(binlog_format, charset) for charset in charsets]
        done = []

        def execute(number: int, text: str) -> None:
            try:
                with sessions[number].cursor() as cursor:
                    cursor.execute(text)
                    while cursor.nextset():
                        pass
                done.append(f"{number}: {text}")
            except (pymysql.Error, UnicodeEncodeError) as error:
                done.append(f"{number}: {text}  -- {error}")

        for number, text in workload.first():
            execute(number, text)
        for n in range(most):
            if n % 4 == 0:
                objects = objects_of(source.sql, [*_OWN, "mysql"])
            for number, text in workload.next(objects):
                execute(number, text)
        for session in sessions:
            session.close()
        time.sleep(0.3)  # the sessions' DROP TEMPORARY TABLE
        return done

    def _session(self, binlog_format: str, charset: str) -> Any:
        session = pymysql.connect(
            unix_socket=str(self.source.socket),
            user="root",
            charset=charset,
            autocommit=True,
            read_timeout=60,
            local_infile=True,
        )
        for text in (
            f"SET SESSION binlog_format = '{binlog_format}'",
            "SET SESSION lock_wait_timeout = 1",
            "SET SESSION innodb_lock_wait_timeout = 1",
        ):
            session.cursor().execute(text)
        return session

    def record(self, directory: Path, seed: int, binlog_format: str, sets: int, most: int) -> Path:
        done = self._run(seed, binlog_format, most)
        source = self.source
        source.sql("FLUSH BINARY LOGS")
        directory.mkdir(parents=True, exist_ok=True)
        logs = [row[0] for row in source.sql("SHOW BINARY LOGS")]
        for log in logs:
            shutil.copy(source.data / log, directory / log)
        self._gtids = [
            (log, row[1], re.search(r"\d+-\d+-\d+", row[5])[0])
            for log in logs
            for row in shown(source, log)
            if row[2] == "Gtid" and self.family == "mariadb"
        ]
        (directory / "bin.index").write_text("".join(f"{log}\n" for log in logs))
        (directory / "done.sql").write_text("\n".join(done) + "\n")
        oracle: dict[str, Any] = {
            "server": source.value("VERSION()"),
            "binlog_format": binlog_format.lower(),
            "gtid": self._gtid(source, "gtid_executed", "gtid_binlog_pos"),
            "logs": logs,
            "lower_case_table_names": self.lower_case,
            "source": {"state": source.state(), "transactions": transactions(source)},
            "cases": {},
        }
        for number, rules in enumerate(odd_rules(seed, sets)):
            oracle["cases"][f"r{number}"] = self._case(rules, [*oracle["source"]["state"]])
        (directory / "oracle.json").write_text(json.dumps(oracle, indent=1))
        return directory

    def _status(self) -> tuple[Place, dict[str, Any] | None]:
        """Return the applier's position and its error, which may quote a statement that is no UTF-8."""
        mysql = self.family == "mysql"
        with (
            self.replica.connect(use_unicode=False, cursorclass=DictCursor) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SHOW REPLICA STATUS" if mysql else "SHOW SLAVE STATUS")
            found = {
                name.replace("Slave", "Replica").replace("Master", "Source"): value.decode("utf-8", "replace")
                if isinstance(value, bytes)
                else value
                for name, value in cursor.fetchone().items()
            }
        place = Place(found["Relay_Source_Log_File"], int(found["Exec_Source_Log_Pos"]))
        if found["Replica_SQL_Running"] == "Yes" or not found["Last_SQL_Error"]:
            return place, None
        return place, {"errno": int(found["Last_SQL_Errno"]), "message": found["Last_SQL_Error"]}

    def _at(self, place: Place) -> str:
        """Return the source's first GTID at a place or after it."""
        for log, position, gtid in self._gtids:
            if (log, position) >= (place.file, place.position):
                return gtid
        return ""

    def _gtid(self, server: RealServer, mysql: str, mariadb: str) -> str:
        return str(server.value(f"@@GLOBAL.{mysql if self.family == 'mysql' else mariadb}"))

    def _case(self, rules: list[str], databases: list[str]) -> dict[str, Any]:
        replica = self.replica
        begin = replica.log.stat().st_size
        replica.empty([*databases, "store", "people"])
        replica.set_filter(rules)
        replica.follow(self.source.port)
        replica.control("START")
        end = self.source.binlog_end()
        deadline = time.monotonic() + WAIT
        failed: list[str] = []
        while True:
            executed, error = self._status()
            if executed >= end:
                break
            if error is not None:
                if self.family == "mysql" or not (gtid := self._at(executed)) or gtid in failed:
                    break
                # A MariaDB replica does not name the statements whose errors it skips.
                failed.append(gtid)
                replica.sql("SET GLOBAL sql_slave_skip_counter = 1", "START SLAVE SQL_THREAD")
            assert time.monotonic() < deadline, executed
            time.sleep(0.02)
        log = replica.log.read_bytes()[begin:].decode(errors="replace")
        found = {
            "options": rules,
            "stopped": error,
            "reached_the_end": error is None,
            "gtid": self._gtid(replica, "gtid_executed", "gtid_slave_pos"),
            "state": replica.state(),
            "transactions": transactions(replica),
            "log": log,
            "passed_but_failed": [
                *failed,
                *(line.split("] ", 2)[-1] for line in log.split("\n") if FAILED.search(line)),
            ],
        }
        replica.control("STOP")
        return found


def shown(server: RealServer, log: str) -> list[tuple[Any, ...]]:
    """Return SHOW BINLOG EVENTS of a file. Statements of clients with other character sets are no UTF-8."""
    with server.connect(use_unicode=False) as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW BINLOG EVENTS IN '{log}'")
        return [
            tuple(one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in row)
            for row in cursor.fetchall()
        ]


def transactions(server: RealServer) -> list[dict[str, Any]]:
    """Return the transactions in a server's binlog in the form of an oracle.json."""
    found: list[dict[str, Any]] = []
    for log, *_ in server.sql("SHOW BINARY LOGS"):
        for _, _, kind, _, _, info in shown(server, log):
            if kind in ("Gtid", "Anonymous_Gtid", "Gtid_tagged_log_event"):
                text = re.sub(r"^(BEGIN )?(SET @@SESSION.GTID_NEXT= )?", "", info).strip("'")
                found.append({"gtid": text, "events": []})
                continue
            if not found or kind in (
                "Format_desc",
                "Previous_gtids",
                "Rotate",
                "Stop",
                "Gtid_list",
                "Binlog_checkpoint",
            ):
                continue
            info = re.sub(r"table_id: \d+ ?", "", info)
            entry = [kind, re.sub(r"^xid=\d+|/\* xid=\d+ \*/", "", info).strip()]
            if found[-1]["events"][-1:] != [entry]:
                found[-1]["events"].append(entry)
    return found


def judge(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the verdicts about a recording: a word, and the details."""
    recording = Recording(directory)
    for case, found in recording.oracle["cases"].items():
        replica = recording.replica(case)
        label = f"{directory.name}/{case} {' '.join(replica.options)}"
        if found["stopped"]:
            yield "STOPPED", f"{label}: {found['stopped']['message'][:300]!r}"
        elif recording.oracle["binlog_format"] != "mixed":
            # A replica may log a statement of a mixed transaction as rows.
            try:
                judge_rows(recording, case)
                yield "rows equal", label
            except AssertionError as error:
                yield "ROWS", f"{label}: {str(error)[:600]}"
        until = set(recording.gtids[: replica.until])
        for logged in statements_of(recording):
            if logged.gtid in until and logged.alone and not logged.committed_later:
                word, reason = _compare(recording, case, logged)
                current = logged.statement.current_database
                yield word, f"{label}: {logged.gtid} [{current}] {logged.text[:300]!r} {reason}"


def _compare(recording: Recording, case: str, logged: Logged) -> tuple[str, str]:
    """Compare the decision about a statement with the replica's, and return a word and the reason."""
    replica = recording.replica(case)
    ran = bool(replica.statements.get(logged.gtid) or replica.tables.get(logged.gtid))
    ran = ran or logged.gtid in replica.failed
    decision = filter_of(recording, case).decide(logged.statement)
    reason = f"{decision} {logged.statement.updated}"
    if decision.verdict is Verdict.UNDECIDED:
        return f"undecided, {'ran' if ran else 'dropped'}", reason
    if decision.verdict is Verdict.IGNORE:
        return "LOST" if ran else "dropped", reason
    if ran:
        return "executed", reason
    silent = leaves_no_trace(logged, recording) or logged.parsed.kind is K.SELECT
    return "no trace" if silent else "LOOSE", reason


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.real.decisions")
    parser.add_argument("family", choices=("mariadb", "mysql"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--sets", type=int, default=12)
    parser.add_argument("--statements", type=int, default=250)
    parser.add_argument("--variant", type=int, default=0)
    parser.add_argument("--formats", default="STATEMENT,MIXED,ROW")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--judge", action="store_true", help="judge the recordings of the directory only")
    options = parser.parse_args()
    family: Family = options.family
    counts: collections.Counter[str] = collections.Counter()

    def say(directory: Path) -> None:
        for word, detail in judge(directory):
            counts[word] += 1
            if word.isupper() or word.startswith("undecided"):
                print(f"{word}: {detail}", flush=True)
        print(dict(sorted(counts.items())), flush=True)

    if options.judge:
        for path in sorted(options.directory.glob(f"{family}-*/oracle.json")):
            say(path.parent)
        return
    with (
        tempfile.TemporaryDirectory(prefix="dumpfilter-odd-") as name,
        Servers(family, Path(name), ports_from(0)) as servers,
    ):
        recorder = Recorder(servers, options.variant)
        formats = options.formats.split(",")
        for seed in range(options.seed, options.seed + options.runs):
            started = time.monotonic()
            binlog_format = formats[seed % len(formats)]
            directory = options.directory / f"{family}-{binlog_format.lower()}-v{options.variant}-{seed}"
            recorder.record(directory, seed, binlog_format, options.sets, options.statements)
            print(f"{directory.name}: recorded in {time.monotonic() - started:.0f} s", flush=True)
            say(directory)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
