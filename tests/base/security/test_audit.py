"""The audit log: one line for each change, in a file of its owner, which logrotate may rename."""

from __future__ import annotations

import json
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from dumpfilter.base.errors import OptionError
from dumpfilter.base.security.audit import audit, open_audit_log


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "audit.log"
    open_audit_log(path)
    yield path
    open_audit_log(None)


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_lines(file: Path) -> None:
    audit("STOP REPLICA", account="ops", peer="10.0.0.1")
    audit("Register", account="repl\n", peer="ipv4:10.0.0.2:5", result="wrong password", server_id=7)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    first, second = lines(file)
    assert str(first.pop("time")).endswith("+00:00")
    assert first == {"account": "ops", "peer": "10.0.0.1", "what": "STOP REPLICA", "result": "ok"}
    assert (second["account"], second["server_id"], second["result"]) == ("repl\\n", 7, "wrong password")


def test_rotation(file: Path, tmp_path: Path) -> None:
    audit("first", account="", peer="")
    file.rename(tmp_path / "audit.log.1")
    audit("second", account="", peer="")
    audit("third", account="", peer="")
    assert [line["what"] for line in lines(tmp_path / "audit.log.1")] == ["first"]
    assert [line["what"] for line in lines(file)] == ["second", "third"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_renamed_file_that_cannot_be_replaced(file: Path, tmp_path: Path) -> None:
    """The ordinary log has the lines, and the file the next ones once there is room."""
    file.rename(tmp_path / "audit.log.1")
    file.mkdir()
    with structlog.testing.capture_logs() as logged:
        audit("first", account="", peer="")
    file.rmdir()
    audit("second", account="", peer="")
    assert [(entry["event"], entry.get("what")) for entry in logged] == [
        ("audit.not_written", None),
        ("audit", "first"),
    ]
    assert [line["what"] for line in lines(file)] == ["second"]


def test_a_full_disk_leaves_no_part_of_a_line(file: Path) -> None:
    audit("first", account="", peer="")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 20, hard))
    try:
        with structlog.testing.capture_logs() as logged:
            audit("second", account="", peer="")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    audit("third", account="", peer="")
    assert [line["what"] for line in lines(file)] == ["first", "third"]
    assert [entry["event"] for entry in logged] == ["audit.not_written", "audit"]


def test_appends(file: Path) -> None:
    audit("first", account="", peer="")
    open_audit_log(file)
    audit("second", account="", peer="")
    assert len(lines(file)) == 2


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="name another file with --audit-log"):
        open_audit_log(tmp_path / "missing" / "audit.log")


def test_a_file_that_cannot_be_written() -> None:
    """The line of a full disk is not lost."""
    open_audit_log(Path("/dev/full"))
    try:
        with structlog.testing.capture_logs() as logged:
            audit("STOP REPLICA", account="ops", peer="h")
    finally:
        open_audit_log(None)
    assert [entry["event"] for entry in logged] == ["audit.not_written", "audit"]
    assert logged[1]["what"] == "STOP REPLICA"


def test_without_a_file_the_ordinary_log_has_the_lines() -> None:
    with structlog.testing.capture_logs() as logged:
        audit("STOP REPLICA", account="ops", peer="h")
    assert logged == [
        {
            "event": "audit",
            "log_level": "info",
            "account": "ops",
            "peer": "h",
            "what": "STOP REPLICA",
            "result": "ok",
        }
    ]
