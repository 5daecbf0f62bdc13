"""The servers' own programs read the binlog sets that ``dumpfilter binlog --raw`` writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.reader import iter_events
from dumpfilter.binlog.rows_events import decode_table_map
from dumpfilter.binlog.workload import generate
from dumpfilter.index.fileset import BinlogSet
from tests.binlog_tools import HARMLESS, complaints
from tests.commands.binlog_runs import ORACLE, gtids, printed, run

_NOTES = re.compile(r"^(?:# at|#\d).*\n", re.MULTILINE)


def kept_tables(index: Path) -> set[str]:
    """Return the tables of the row events in a set."""
    binlogs = BinlogSet.open(index)
    found = set()
    for name in binlogs.names:
        with binlogs.path(name).open("rb") as source:
            for event in iter_events(source, file=name):
                if event.type == EventType.TABLE_MAP:
                    table = decode_table_map(event.body)
                    found.add(f"{table.database}.{table.table}")
    return found


@pytest.mark.parametrize("recording", ["mysql-row", "mysql-mixed", "mariadb-row", "mariadb-mixed"])
@pytest.mark.parametrize("options", [[], ["--clever"]], ids=["plain", "clever"])
def test_a_raw_set_prints_as_the_source_does_filtered(
    tmp_path: Path, recording: str, options: list[str]
) -> None:
    source = ORACLE / recording
    rules = ["--wild-ignore-table=shop.o%", "--ignore-db=logs", *options]
    assert printed(source, *rules, "--raw", "--output", tmp_path / "out") == ""
    made = tmp_path / "out"
    assert sorted(path.name for path in made.iterdir()) == sorted(p.name for p in source.glob("bin.*"))
    family = recording.partition("-")[0]
    assert complaints(sorted(made.glob("bin.0*")), family) in ("", *HARMLESS)
    said = {table.partition(".")[0] for table in kept_tables(made / "bin.index")}
    assert said >= {"hr", "scratch"} - (set() if "row" in recording else {"hr", "scratch"})
    assert "logs" not in said
    # only places, and what stands for the whole file, differ
    texts = [_NOTES.sub("", printed(index, *rules, "--may-fail=print")) for index in (source, made)]
    statements = [re.sub(r"BINLOG '.*?'", "BINLOG", text, flags=re.DOTALL) for text in texts]
    assert statements[0] == statements[1]


def test_a_raw_set_of_a_part_is_valid(tmp_path: Path) -> None:
    made = generate(tmp_path / "in", 300_000, style="mariadb", file_size=90_000)
    names = sorted(made.files)
    assert len(names) > 2
    text = printed(made.index)
    middle = gtids(printed(names[1]))[5]
    out = tmp_path / "out"
    printed(made.index, f"--stop-position={middle}", "--raw", "--output", out, "--base-name", "part")
    part = sorted(out.glob("part.0*"))
    assert complaints(part, "mariadb") in ("", *HARMLESS)
    every = gtids(text)
    assert gtids(printed(out / "part.index")) == every[: every.index(middle) + 1]
    again = run(made.index, "--raw", "--output", out, "--base-name", "part")
    assert again.returncode == 1
    assert "there already" in again.stderr
    printed(made.index, "--raw", "--output", out, "--base-name", "part", "--overwrite")
    assert gtids(printed(out / "part.index")) == every
