"""The log: both formats, levels, hostile fields, libraries' messages, and the names of all events."""

from __future__ import annotations

import ast
import functools
import io
import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from dumpfilter.base import logs
from dumpfilter.base.logs import Format, Level
from dumpfilter.base.security.audit import audit
from tests.log_state import reset_logs

ROOT = Path(__file__).parents[2]
HOSTILE = "a\nb\r\x1b[2J\x00\u2028\u202e\udce9\x7f\"'{}\\😀"


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], str]]:
    """Return a function that tells what was written to standard error."""
    so_far: list[str] = []

    def everything() -> str:
        so_far.append(capsys.readouterr().err)
        return "".join(so_far)

    yield everything
    reset_logs()


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def log() -> Any:
    return structlog.get_logger("dumpfilter.test")


def test_json_lines(written: Callable[[], str]) -> None:
    logs.configure(Format.JSON)
    log().info("registered", server_id=7, rules=["a", "b"], at=1.5)
    log().debug("not shown")
    (line,) = objects(written())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("timestamp"))
    assert line == {
        "level": "info",
        "logger": "dumpfilter.test",
        "event": "registered",
        "server_id": 7,
        "rules": ["a", "b"],
        "at": 1.5,
    }
    assert list(objects(written())[0])[:4] == ["timestamp", "level", "logger", "event"]


def from_library(logger: str, level: int, message: str, *arguments: str) -> None:
    """Handle a message of a library. Handlers of pytest do not get it: their reports cannot have lone surrogates."""
    handler = next(each for each in logging.getLogger().handlers if isinstance(each, logs.ErrorHandler))
    handler.handle(logging.LogRecord(logger, level, __file__, 1, message, arguments, None))


@pytest.mark.parametrize("form", Format)
@pytest.mark.parametrize("level", Level)
def test_levels(written: Callable[[], str], form: Format, level: Level) -> None:
    logs.configure(form, level)
    for name in Level:
        getattr(log(), name.value)(f"an event of {name}")
        logging.getLogger("grpc").log(name.number, "library %s", name)
    text = written()
    for name in Level:
        assert (f"an event of {name}" in text) is (name.number >= level.number)
    # Libraries write much at the level debug.
    assert ("library debug" in text) is False
    assert "library error" in text


@pytest.mark.parametrize("form", Format)
def test_hostile_fields(written: Callable[[], str], form: Format) -> None:
    logs.configure(form)
    fields = {
        "name": HOSTILE,
        HOSTILE: 1,
        "bytes": HOSTILE.encode("utf-8", "surrogateescape"),
        "list": [HOSTILE],
    }
    log().warning("hostile", nan=float("nan"), inf=float("inf"), object=object(), **fields)
    from_library(HOSTILE, logging.ERROR, "%s", HOSTILE)
    text = written()
    assert text.count("\n") == 2 if form is Format.JSON else text.count("hostile") == 1
    if form is Format.JSON:
        first, second = objects(text)
        assert first["name"].startswith("a\nb\r\x1b[2J\x00")
        assert "\\udce9" in first["name"]
        assert "\\udce9" in second["message"]
        for value in (*first.values(), *first, *second.values()):
            str(value).encode("utf-8")
        assert text.isascii()
    else:
        assert "\x1b" not in text
        assert "\x00" not in text


def test_text_is_one_line_for_each_event(written: Callable[[], str]) -> None:
    logs.configure(Format.TEXT)
    log().warning("hostile", name=HOSTILE, names=["x", HOSTILE])
    (line,) = written().splitlines()
    assert "names=['x', 'a" in line
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z \[warning  \] hostile +name=", line)


def test_long_values_are_cut(written: Callable[[], str]) -> None:
    logs.configure(Format.JSON)
    log().info("long", text="x" * 10_000_000)
    assert len(written()) < 30_000


def fail() -> None:
    raise ValueError("something\nbad")


@pytest.mark.parametrize("level", [Level.INFO, Level.DEBUG])
@pytest.mark.parametrize("form", Format)
def test_a_traceback_shows_at_the_level_debug_only(
    written: Callable[[], str], form: Format, level: Level
) -> None:
    logs.configure(form, level)
    try:
        fail()
    except ValueError:
        log().exception("console.statement_failed")
        logging.getLogger("grpc").exception("calling failed")
    text = written()
    assert ("Traceback" in text) is (level is Level.DEBUG)
    assert "ValueError" in text
    assert "test_logs.py:" in text
    if form is Format.JSON:
        first, second = objects(text)
        assert (first["event"], first["error"], first["level"]) == (
            "console.statement_failed",
            "something\nbad",
            "error",
        )
        assert (second["logger"], second["message"]) == ("grpc", "calling failed")


def test_libraries_go_the_same_way(written: Callable[[], str]) -> None:
    logs.configure(Format.JSON)
    from_library("asyncio", logging.WARNING, "slow %s", HOSTILE)
    # A message that does not fit its arguments is lost, and stops nothing.
    from_library("x", logging.WARNING, "%d", "no number")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", stacklevel=1)
    first, *_, last = written().splitlines()
    assert json.loads(first)["logger"] == "asyncio"
    assert json.loads(first)["message"] == f"slow {HOSTILE}".replace("\udce9", "\\udce9")
    assert json.loads(last)["logger"] == "py.warnings"
    assert "Traceback" not in written()


def test_a_thread_that_fails_is_an_event(written: Callable[[], str]) -> None:
    logs.configure(Format.JSON)
    thread = threading.Thread(target=fail, name="T")
    thread.start()
    thread.join()
    (line,) = objects(written())
    assert (line["event"], line["thread"], line["exception"]) == (logs.UNEXPECTED, "T", "ValueError")


def test_a_flood_of_one_event_is_cut_and_counted(
    written: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.configure(Format.JSON)
    now = 1000.0
    monkeypatch.setattr(logs.time, "monotonic", lambda: now)
    for number in range(3 * logs.MOST_LINES):
        log().warning("client.connected", number=number)
        audit("login", account="u", peer="p", number=number)
    log().warning("another event")
    now += logs.LINES_PERIOD
    log().warning("client.connected", number=-1)
    lines = objects(written())
    flood = [line for line in lines if line["event"] == "client.connected"]
    assert len(flood) == logs.MOST_LINES + 1
    assert "held back" in flood[-2]["next_lines"]
    assert flood[-1]["lines_held_back"] == 2 * logs.MOST_LINES
    assert [line["event"] for line in lines].count("audit") == 3 * logs.MOST_LINES
    assert "another event" in {line["event"] for line in lines}


def test_a_flood_of_a_library_raises_nothing_in_the_library(written: Callable[[], str]) -> None:
    logs.configure()
    for _ in range(2 * logs.MOST_LINES):
        logging.getLogger("grpc").error("calling failed")
    assert written().count("calling failed") == logs.MOST_LINES


def test_the_audit_log_has_no_level(written: Callable[[], str]) -> None:
    logs.configure(Format.JSON, Level.ERROR)
    audit("PURGE", account="a", peer="p")
    log().warning("not shown")
    (line,) = objects(written())
    assert (line["event"], line["logger"], line["what"]) == ("audit", logs.AUDIT, "PURGE")


def test_an_output_that_fails_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    logs.configure(Format.TEXT)
    try:
        log().error("lost")
        logging.getLogger("x").error("lost")
    finally:
        reset_logs()


def test_the_last_configuration_counts(written: Callable[[], str]) -> None:
    logs.configure()
    logs.configure(Format.JSON)
    assert logs.is_json()
    log().info("once")
    assert [line["event"] for line in objects(written())] == ["once"]


@functools.cache
def events() -> dict[str, ast.expr]:
    """Return the events of the product's log lines, by the place of the line or of a string it chooses from.

    An event is the first argument of a call of a logger's method. Where a line chooses between two events, it
    names them by a variable ``event``, whose strings are found as well.
    """
    found = {}
    for folder in ("dumpfilter", "master", "slave", "spark_jobs"):
        for path in ROOT.joinpath(folder).rglob("*.py"):
            text = path.read_text()
            for node in ast.walk(ast.parse(text)) if "log." in text else ():
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in ("debug", "info", "warning", "error", "exception", "critical")
                    and ast.unparse(node.func.value) in ("log", "self.log")
                ):
                    found[f"{path.relative_to(ROOT)}:{node.lineno}"] = node.args[0]
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "event":
                    chosen = node.value
                    for event in (chosen.body, chosen.orelse) if isinstance(chosen, ast.IfExp) else ():
                        found[f"{path.relative_to(ROOT)}:{event.lineno}:{event.col_offset}"] = event
    return found


def test_events_have_stable_names() -> None:
    assert len(events()) > 40
    bad = []
    for place, event in events().items():
        name = event.value if isinstance(event, ast.Constant) else None
        # A variable's values are in the same module.
        if isinstance(event, ast.Name) and event.id == "event":
            continue
        if not isinstance(name, str) or not re.fullmatch(
            r"[a-z][a-z0-9 ,;:'._/()-]*", name.replace("TLS", "tls")
        ):
            bad.append((place, ast.unparse(event)))
    assert not bad


def test_the_page_lists_events_that_exist() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    section = page.partition("## Logs")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    listed = re.findall(r"`([^`]+)`", " ".join(first_cells))
    names = {event.value for event in events().values() if isinstance(event, ast.Constant)}
    names |= {
        logs.UNEXPECTED,
        "ended by an error",
        "message of a library",
    }
    assert len(listed) > 15
    assert set(listed) <= names
