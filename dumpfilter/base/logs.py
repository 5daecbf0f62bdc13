"""The log of a process: its format (text or JSON), its lowest level, and the rate limit of its lines.

All parts of the product log through structlog (:func:`logger`), with an event name and fields. Libraries such as grpc
and asyncio log through the standard library. :func:`configure` sends both through the same processors to standard
error. An event's name is a stable lower-case phrase, so that programs can search for it.

A process imports structlog when it writes the first line, because the import takes longer than many commands.
"""

from __future__ import annotations

import enum
import logging
import math
import sys
import threading
import time
import traceback
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any

from dumpfilter.base.printable import printable, visible

AUDIT = "dumpfilter.audit"
"""The logger of the audit log. The lines of the audit log appear at every level, because each tells of a change or a
refused change.
"""

UNEXPECTED = "unexpected error"
"""The event name of a log line about an error that no part of the product expected."""

_LONGEST_VALUE = 20_000
"""The length at which a text in a log line is cut, characters."""

MOST_LINES = 100
"""The limit of log lines with the same logger and event in a period. Outsiders can cause lines, for example by failed
logins.
"""
LINES_PERIOD = 10.0
"""The length of a period, in which a log has at most :data:`MOST_LINES` lines of one event, seconds."""

Event = MutableMapping[str, Any]


class Format(enum.StrEnum):
    """The formats of the log's lines: text for people, or one JSON object a line for programs."""

    TEXT = "text"
    JSON = "json"


class Level(enum.StrEnum):
    """The severities of log lines, of which the user chooses the lowest one that the log shows."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """The number that Python's module ``logging`` has for this level."""
        return int(logging.getLevelNamesMapping()[self.value.upper()])


class _Logger:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        import structlog

        _prepare()
        return getattr(structlog.get_logger(self._name), method)


def logger(name: str) -> Any:
    """Return structlog's logger of the name ``name``, such as ``dumpfilter.slave``."""
    return _Logger(name)


class _State:
    """The configuration of the process's log."""

    format: Format | None = None
    """The format of the log; None before :func:`configure`."""
    level: Level = Level.DEBUG
    """The lowest level that is logged. Before :func:`configure` it is DEBUG, so that no line is held back."""
    handler: ErrorHandler | None = None
    """The log handler of Python's ``logging`` that :func:`configure` has made; None before."""


class Seldom:
    """A rate limiter for log lines that clients can cause in any number, such as failed logins.

    The limiter allows ``most`` lines in each period (:data:`LINES_PERIOD`).
    """

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self.left = 0
        """The number of further lines that the present period allows, as of the last call of :meth:`fields`."""
        self._next = 0.0
        self._held = 0
        self._lock = threading.Lock()

    def fields(self) -> dict[str, int] | None:
        """Ask for permission to log one line. Return None if the limit is reached, so that the line must be dropped.

        If the line is permitted, return its further fields. They tell how many lines were dropped since the last
        permitted one, if any were.
        """
        with self._lock:
            now = time.monotonic()
            if now >= self._next:
                self._next, self.left = now + LINES_PERIOD, self._most
            if not self.left:
                self._held += 1
                return None
            self.left -= 1
            held, self._held = self._held, 0
        return {"lines_held_back": held} if held else {}


def is_json() -> bool:
    """Tell whether the process's log has JSON lines, so that nothing else may be written to standard error."""
    return _State.format is Format.JSON


def shows(level: Level) -> bool:
    """Tell whether the log shows lines of ``level``. The lowest shown level is the user's choice.

    Code that prints a message outside the log asks this function first, so that ``--log-level`` also applies to the
    message.
    """
    return level.number >= _State.level.number


def configure(format: Format = Format.TEXT, level: Level = Level.INFO) -> None:
    """Configure this process to write its log to standard error, in colors if that is a terminal.

    The log also gets Python's warnings, and a line for each uncaught exception of a thread.
    """
    _State.format, _State.level = format, level
    _State.handler = handler = ErrorHandler()
    if "structlog" in sys.modules:
        _prepare()
    root = logging.getLogger()
    root.handlers = [*(one for one in root.handlers if not isinstance(one, ErrorHandler)), handler]
    root.setLevel(max(level.number, logging.INFO))
    logging.getLogger("dumpfilter").setLevel(level.number)
    logging.getLogger(AUDIT).setLevel(logging.DEBUG)
    logging.captureWarnings(True)
    threading.excepthook = _thread_failed


def _prepare() -> None:
    """Configure structlog for the log of this process, as :func:`configure` has chosen. The function is called for each
    line, and does its work only for the first one.
    """
    handler = _State.handler
    if handler is None or handler.formatter is not None:
        return
    import structlog
    from structlog.processors import ExceptionRenderer, JSONRenderer, TimeStamper
    from structlog.stdlib import ProcessorFormatter, add_log_level, add_logger_name, filter_by_level

    named: list[Any] = [add_logger_name, add_log_level]
    structlog.configure(
        processors=[filter_by_level, *named, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    # JSON is only ASCII: some readers of lines also break them at characters such as U+2028.
    as_text = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_level=True)
    handler.formatter = ProcessorFormatter(
        foreign_pre_chain=[*named, _of_library],
        processors=[
            ProcessorFormatter.remove_processors_meta,
            partial(_within_rate, {}),
            TimeStamper("iso", utc=True),
            # The exception itself, which is described by the next step.
            ExceptionRenderer(lambda info: info[1]),
            partial(_with_error, _State.level is Level.DEBUG),
            *([_safe, JSONRenderer()] if is_json() else [partial(_as_text, as_text)]),
        ],
    )


class ErrorHandler(logging.StreamHandler[Any]):
    """The log handler that writes one line for each log record to standard error.

    A progress bar may replace ``sys.stderr`` while it runs. Therefore the handler looks up ``sys.stderr`` for every
    line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a log record."""
        _prepare()
        return super().format(record)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one log record to the stream that ``sys.stderr`` is at this moment."""
        self.stream = sys.stderr
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore the error of a record that cannot be written, or that a structlog processor has dropped. The log must
        not stop the replication.
        """


def _of_library(_: Any, name: str, event: Event) -> Event:
    """Replace the event name of a log line that a library wrote, since libraries log free texts. The new name is the
    same for all these lines, and the text moves into the field ``message``. A structlog processor.
    """
    return {**event, "event": "message of a library", "message": event["event"]}


class _HeldBack(Exception):
    """The exception by which a structlog processor drops a log line. The log handler catches this exception.

    structlog's own :class:`structlog.DropEvent` is no subclass of Exception. A DropEvent would leave the handler, and
    interrupt the library that logs the line.
    """


def _within_rate(rates: dict[tuple[str, str], Seldom], _: Any, name: str, event: Event) -> Event:
    """Drop a log line if the log already has the maximum number of lines of the same logger and event in this period
    (:data:`MOST_LINES`). A structlog processor.

    ``rates`` has the rate limiters, by pairs of logger and event name. The next line that is not dropped has the number
    of dropped lines. Lines of the audit log are never dropped.
    """
    if event["logger"] == AUDIT:
        return event
    gate = rates.setdefault((event["logger"], str(event["event"])), Seldom(most=MOST_LINES))
    fields = gate.fields()
    if fields is None:
        raise _HeldBack
    event.update(fields)
    if not gate.left:
        event["next_lines"] = f"held back for up to {LINES_PERIOD:.0f} s"
    return event


def _with_error(with_traceback: bool, _: Any, name: str, event: Event) -> Event:
    """Replace the exception in a log line by fields with its class, its text, and the source line that raised it. A
    structlog processor.

    With ``with_traceback``, as at the level debug, the line also has the traceback.
    """
    error = event.get("exception")
    if not isinstance(error, BaseException):
        return event
    event["exception"] = type(error).__name__
    event.setdefault("error", str(error))
    for frame in traceback.extract_tb(error.__traceback__)[-1:]:
        event["raised_at"] = f"{frame.filename}:{frame.lineno}"
    if with_traceback:
        event["traceback"] = "".join(traceback.format_exception(error))
    else:
        event["hint"] = "--log-level=debug adds the traceback"
    return event


def _as_utf8(text: str, most: int) -> str:
    r"""Return a text with lone surrogates escaped, which are not valid in UTF-8, and cut to ``most`` characters.

    >>> _as_utf8("caf\udce9", 9), _as_utf8("long", 2)
    ('caf\\udce9', 'lo…')
    """
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= most else text[:most] + "…"


def _as_text(render: Callable[[Any, str, Event], str], logger: Any, name: str, event: Event) -> str:
    """Return the text of a log line, followed by the lines of the traceback, if there is one. A structlog processor,
    the last one of the text format.

    ``render`` is structlog's processor that makes the text of an event without its traceback. Control characters are
    escaped, so that logged text cannot command a terminal.
    """
    trace = event.pop("traceback", "")
    line = _safe(logger, name, event, escape=printable)
    # The logger's name would make every line longer, and people know the process.
    del line["logger"]
    return "\n".join([render(logger, name, line), *map(visible, trace.splitlines())])


def _safe(_: Any, name: str, event: Event, escape: Callable[[str, int], str] = _as_utf8) -> Event:
    """Return a log line with only types that JSON can represent, and the time first. A structlog processor.

    ``escape`` is applied to each text in the line, with the length to which it cuts the text.
    """

    def clean(value: Any) -> Any:
        match value:
            case None | bool() | int():
                return value
            case float() if math.isfinite(value):
                return value
            case dict():
                return {clean(str(key)): clean(each) for key, each in value.items()}
            case list() | tuple() | set() | frozenset():
                return [clean(each) for each in value]
            case bytes() | bytearray():
                value = bytes(value[: _LONGEST_VALUE + 1]).decode("utf-8", "backslashreplace")
        return escape(str(value), _LONGEST_VALUE)

    first = {key: event.pop(key) for key in ("timestamp", "level", "logger", "event")}
    return {clean(key): clean(value) for key, value in {**first, **event}.items()}


def _thread_failed(args: threading.ExceptHookArgs) -> None:
    """Log an uncaught exception that ends a thread. Python calls the function as ``threading.excepthook``."""
    if args.exc_value is None or isinstance(args.exc_value, SystemExit):
        return
    thread = args.thread.name if args.thread is not None else ""
    logger("dumpfilter").error(UNEXPECTED, thread=thread, exc_info=args.exc_value)
