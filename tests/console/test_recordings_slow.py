"""Every statement that a real server was asked, asked of ours: the same rows, numbers and messages.

What may differ is listed in ``differences.py`` and, with the reasons, in docs/console-differences.md.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dumpfilter.binlog.events import MAGIC
from tests.console.differences import DIFFERENCES, Difference
from tests.console.replay import DATA, Deviation, load, our_master, our_slave, replay, serving

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "console-differences.md"
RECORDINGS = sorted(path.stem for path in DATA.glob("*.json") if not path.stem.startswith("mariadb-"))


def ask_slave(name: str, directory: Path) -> list[Deviation]:
    recording = load(name)
    if recording["before"]:
        with our_slave(directory) as console:
            for sql in recording["before"]:
                console.ask(sql)
    with our_slave(directory, recording["server"]) as console:
        assert console.warnings == [line.split("[Repl] ")[1] for line in recording.get("error_log", [])]
        return replay(recording, console, undo=undo(recording))


def ask_running(name: str, directory: Path) -> list[Deviation]:
    """Ask a slave whose master serves the binlogs of the recorded source."""
    recording = load(name)
    with serving(copied(name, directory)) as port, our_slave(directory / "slave") as console:
        return replay(recording, console, source_port=port, undo=undo(recording))


def ask_master(name: str, directory: Path) -> list[Deviation]:
    recording = load(name)
    with our_master(copied(name, directory)) as console:
        return replay(recording, console, undo=undo(recording))


def copied(name: str, directory: Path) -> Path:
    """Copy the binlogs of a recording, as a stopped server leaves them.

    They were copied while the server ran, which the newest file tells by LOG_EVENT_BINLOG_IN_USE_F in its first event.
    """
    folder = directory / "binlogs"
    shutil.copytree(DATA / name, folder)
    for file in folder.glob("*.0*"):
        data = bytearray(file.read_bytes())
        data[len(MAGIC) + 17] &= ~1
        file.write_bytes(data)
    return folder


ASKED: dict[str, Callable[[str, Path], list[Deviation]]] = {"master-show": ask_master, "running": ask_running}


def undo(recording: dict[str, object]) -> dict[str, str]:
    steps = recording["steps"]
    assert isinstance(steps, list)
    return {
        step["sql"]: difference.undo
        for step in steps
        for difference in DIFFERENCES
        if difference.undo and re.fullmatch(difference.sql, step["sql"], re.DOTALL)
    }


@cache
def deviations(name: str) -> list[Deviation]:
    with TemporaryDirectory() as directory:
        return ASKED.get(name, ask_slave)(name, Path(directory))


@pytest.mark.parametrize("name", RECORDINGS)
def test_ours_answers_as_the_real_server(name: str) -> None:
    unexplained = [one for one in deviations(name) if not any(known.explains(one) for known in DIFFERENCES)]
    assert not unexplained, "\n".join(
        f"{one.sql}\n  {one.aspect}:\n  - {one.recorded}\n  + {one.ours}" for one in unexplained
    )


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda one: f"{one.title}: {one.sql}")
def test_every_difference_is_still_one(difference: Difference) -> None:
    names = [name for name in RECORDINGS if re.fullmatch(difference.scenarios, name)]
    assert any(difference.explains(one) for name in names for one in deviations(name))


def test_the_documentation_lists_the_differences() -> None:
    headings = re.findall(r"^## (.*)$", DOCUMENTATION.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == list(dict.fromkeys(difference.title for difference in DIFFERENCES))


OLD_AND_NEW = (
    ("START SLAVE", "START REPLICA"),
    ("STOP SLAVE", "STOP REPLICA"),
    ("RESET SLAVE", "RESET REPLICA"),
    ("SHOW SLAVE STATUS", "SHOW REPLICA STATUS"),
    ("SHOW SLAVE STATUS FOR CHANNEL 'nosuch'", "SHOW REPLICA STATUS FOR CHANNEL 'nosuch'"),
    ("START SLAVE 'nosuch'", "START REPLICA FOR CHANNEL 'nosuch'"),
    ("CHANGE MASTER TO MASTER_HOST=''", "CHANGE REPLICATION SOURCE TO SOURCE_HOST=''"),
    (
        "CHANGE MASTER 'group_replication_applier' TO MASTER_PORT=1",
        "CHANGE REPLICATION SOURCE TO SOURCE_PORT=1 FOR CHANNEL 'group_replication_applier'",
    ),
    ("SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"),
    ("SHOW MASTER LOGS", "SHOW BINARY LOGS"),
    ("SHOW SLAVE HOSTS", "SHOW REPLICAS"),
)


def test_old_words_are_answered_as_new_ones(tmp_path: Path) -> None:
    with our_slave(tmp_path) as console:
        for old, new in OLD_AND_NEW:
            of_old, of_new = console.ask(old), console.ask(new)
            for aspect in ("error", "affected", "warnings", "rows"):
                assert of_old.get(aspect) == of_new.get(aspect), (old, aspect)


MARIADB_ONLY = {
    "START ALL SLAVES": "there is nothing to start: as START REPLICA without channels (1200)",
    "CHANGE MASTER 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa5' TO MASTER_HOST='127.0.0.1'": (
        "names have at most 64 characters"
    ),
    "SHOW BINARY LOGS": "a slave has no binary log",
}
"""The statements that MariaDB accepts and a slave's console refuses, with the reasons."""


def test_mariadbs_forms_are_understood(tmp_path: Path) -> None:
    """The console accepts MariaDB's statements. The answers are MySQL's (docs/console-differences.md)."""
    refused = {}
    with our_slave(tmp_path) as console:
        for step in load("mariadb-names")["steps"]:
            answer = console.ask(step["sql"])
            if "error" in answer and "error" not in step:
                refused[step["sql"]] = answer["error"]
    assert refused.keys() == MARIADB_ONLY.keys()


@pytest.mark.parametrize(
    "verb", ["SHOW SLAVE 'nosuch' STATUS", "START SLAVE 'nosuch'", "STOP SLAVE 'nosuch'"]
)
def test_an_unknown_connection_is_refused_with_mysqls_number(tmp_path: Path, verb: str) -> None:
    (recorded,) = (step["error"] for step in load("mariadb-names")["steps"] if step["sql"] == verb)
    assert recorded == [1617, "HY000", "There is no master connection 'nosuch'"]
    with our_slave(tmp_path) as console:
        assert console.ask(verb)["error"] == [3074, "HY000", "Replica channel 'nosuch' does not exist."]
