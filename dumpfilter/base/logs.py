"""The log of a process: its format (text or JSON), its lowest level, and the rate limit of its lines.

All parts of the product log through structlog, with an event name and fields. Libraries such as grpc and asyncio log
through the standard library. :func:`configure` sends both through the same processors to standard error. An event's
name is a stable lower-case phrase, so that programs can search for it.
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
from typing import Any, ClassVar

from dumpfilter.base.printable import printable, visible

# Each function imports structlog when it runs, because the import takes longer than the answer to --help.

AUDIT = "dumpfilter.audit"
"""The logger of the audit log. Its lines appear at every level, because each tells of a change or a refused change."""

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
    """The format of the log's lines: text for people, or one JSON object a line for programs."""

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


class _State:
    """The configuration of the process's log."""

    format: Format | None = None
    """The format of the log; None before :func:`configure`."""
    level: Level = Level.DEBUG
    """The lowest level that is logged. Before :func:`configure` it is DEBUG, so that no line is held back."""
    preferred_format: Format | None = None
    preferred_level: Level | None = None
    """The level that the user has chosen for every command (:func:`prefer`), as :attr:`preferred_format`; None: no
    choice.
    """
    rates: ClassVar[dict[tuple[str, str], Seldom]] = {}
    """The rate limiters of the log lines, by logger and event."""
    thread_hook: Callable[[threading.ExceptHookArgs], Any] | None = None
    """The value of ``threading.excepthook`` before :func:`configure` replaced it."""


class Seldom:
    """A rate limiter for log lines that clients can cause in any number, such as failed logins.

    It allows ``most`` lines in each period (:data:`LINES_PERIOD`).
    """

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._left = 0
        self._next = 0.0
        self._held = 0
        self._lock = threading.Lock()

    @property
    def is_shut(self) -> bool:
        """Whether further lines will be dropped, because the present period has had as many lines as the limit allows.

        Callers read it after :meth:`allows`.
        """
        return not self._left

    def allows(self) -> int | None:
        """Ask for permission to log one line. Return None when the limit is reached and the line must be dropped.

        Otherwise return the number of lines that were dropped since the last permitted one.
        """
        with self._lock:
            now = time.monotonic()
            if now >= self._next:
                self._next, self._left = now + LINES_PERIOD, self._most
            if not self._left:
                self._held += 1
                return None
            self._left -= 1
            held, self._held = self._held, 0
            return held


def is_json() -> bool:
    """Tell whether the process's log has JSON lines, so that nothing else may be written to standard error."""
    return _State.format is Format.JSON


def shows(level: Level) -> bool:
    """Tell whether the log shows lines of ``level``, which must be at least the level that the user has chosen.

    Code that prints a message outside the log asks this function first, so that ``--log-level`` also applies to the
    message.
    """
    return level.number >= _State.level.number


def prefer(format: Format | None, level: Level | None) -> None:
    """Set the format and the lowest level of the log, as the user has chosen them on the command line.

    They apply to every later :func:`configure` that is called without a format or level. None: the user has chosen
    nothing.
    """
    _State.preferred_format, _State.preferred_level = format, level


def configure(
    format: Format | None = None,
    level: Level | None = None,
    *,
    otherwise: Level = Level.INFO,
    colors: bool = False,
) -> None:
    """Configure this process to write its log to standard error.

    Without ``format`` or ``level`` the user's choice for every command applies (:func:`prefer`). ``otherwise`` is the
    level if the user has chosen none. ``colors`` permits colors in the text format. The log also gets a line for each
    uncaught exception of a thread.
    """
    format = format or _State.preferred_format or Format.TEXT
    level = level or _State.preferred_level or otherwise
    if _State.format is None:
        _State.thread_hook = threading.excepthook
    _State.format, _State.level = format, level
    _State.rates.clear()
    import structlog
    from structlog.stdlib import ProcessorFormatter, add_log_level, add_logger_name, filter_by_level

    named: list[Any] = [add_logger_name, add_log_level]
    structlog.configure(
        processors=[filter_by_level, *named, ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    formatter = ProcessorFormatter(
        foreign_pre_chain=[*named, _of_library],
        processors=[
            ProcessorFormatter.remove_processors_meta,
            _within_rate,
            structlog.processors.TimeStamper("iso", utc=True),
            lambda _, name, event: _with_error(event, with_traceback=level is Level.DEBUG),
            *(_json_steps() if format is Format.JSON else _text_steps(colors=colors)),
        ],
        use_get_message=False,
        pass_foreign_args=True,
    )
    handler = ErrorHandler()
    handler.setFormatter(formatter)
    _set_handler(handler, level.number, max(level.number, logging.INFO))
    logging.captureWarnings(True)
    threading.excepthook = _thread_failed


def reset() -> None:
    """Undo :func:`configure` and :func:`prefer`, for a process that runs several commands, such as a test."""
    prefer(None, None)
    if _State.format is None:
        return
    import structlog

    _State.format, _State.level = None, Level.DEBUG
    structlog.reset_defaults()
    _set_handler(None, logging.NOTSET, logging.WARNING)
    logging.captureWarnings(False)
    threading.excepthook = _State.thread_hook or threading.__excepthook__


def _set_handler(handler: ErrorHandler | None, own: int, libraries: int) -> None:
    """Replace the handler that writes the log, or remove it for None.

    ``own`` is the lowest level of dumpfilter's lines, and ``libraries`` that of all other lines.
    """
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, ErrorHandler)]:
        root.removeHandler(old)
    if handler is not None:
        root.addHandler(handler)
    root.setLevel(libraries)
    logging.getLogger("dumpfilter").setLevel(own)
    logging.getLogger(AUDIT).setLevel(logging.NOTSET if handler is None else logging.DEBUG)


class ErrorHandler(logging.StreamHandler[Any]):
    """The log handler that writes one line for each log record to standard error.

    A progress bar may replace ``sys.stderr`` while it runs. Therefore the handler looks up ``sys.stderr`` for every
    line.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Write one log record to the stream that ``sys.stderr`` is at this moment."""
        self.stream = sys.stderr
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Ignore the error of a record that cannot be written, or that a structlog processor has dropped. The log must
        not stop the replication.
        """


def _of_library(_: Any, name: str, event: Event) -> Event:
    """Replace the event name of a library's log line by a stable one, and move its message into the field ``message``.
    A structlog processor.
    """
    template, arguments = event["event"], event.pop("positional_args")
    try:
        message = {
            "event": "message of a library",
            "message": template % arguments if arguments else template,
        }
    except Exception as error:
        # The format of a library's message may not fit its arguments.
        message = {"event": "message of a library that cannot be shown", "error": str(error)}
    return {**event, **message}


def _within_rate(_: Any, name: str, event: Event) -> Event:
    """Drop a log line when its event has used up the limit of the period (:data:`MOST_LINES`). A structlog processor.

    The event's next line carries the number of dropped lines. Lines of the audit log are never dropped.
    """
    import structlog

    if event["logger"] == AUDIT:
        return event
    gate = _State.rates.setdefault((event["logger"], str(event["event"])), Seldom(most=MOST_LINES))
    held = gate.allows()
    if held is None:
        raise structlog.DropEvent
    if held:
        event["lines_held_back"] = held
    if gate.is_shut:
        event["next_lines"] = f"held back for up to {LINES_PERIOD:.0f} s"
    return event


def _with_error(event: Event, *, with_traceback: bool) -> Event:
    """Replace the exception in a log line by fields with its class, text and place in the code.

    With ``with_traceback``, as at the level debug, the line also has the traceback.
    """
    info = event.pop("exc_info", None)
    error = (
        info if isinstance(info, BaseException) else (info if isinstance(info, tuple) else sys.exc_info())[1]
    )
    if not info or error is None:
        return event
    event["exception"] = type(error).__name__
    event.setdefault("error", str(error))
    frames = traceback.extract_tb(error.__traceback__)
    if frames:
        event["raised_at"] = f"{frames[-1].filename}:{frames[-1].lineno}"
    if with_traceback:
        event["traceback"] = "".join(traceback.format_exception(error))
    else:
        event["hint"] = "--log-level=debug adds the traceback"
    return event


def _json_steps() -> list[Any]:
    """Return the last structlog processors for the JSON format. They write one valid line, whatever the fields hold."""
    import structlog

    def ordered(_: Any, name: str, event: Event) -> Event:
        first = {key: event.pop(key) for key in ("timestamp", "level", "logger", "event")}
        cleaned: Event = _cleaned({**first, **event}, lambda text: _utf8(_cut(text)))
        return cleaned

    # Only ASCII: some readers of lines also break them at characters such as U+2028.
    return [ordered, structlog.processors.JSONRenderer()]


def _text_steps(*, colors: bool) -> list[Any]:
    """Return the last structlog processors for the text format: one line, and then the lines of a traceback.

    Control characters are escaped, so that logged text cannot command a terminal.
    """
    import structlog

    renderer = structlog.dev.ConsoleRenderer(colors=colors, pad_level=True)

    def render(logger: Any, name: str, event: Event) -> str:
        trace = event.pop("traceback", "")
        # The logger's name would make every line longer, and people know the process.
        event.pop("logger")
        safe = _cleaned(event, lambda text: printable(text, _LONGEST_VALUE))
        return _utf8("\n".join([str(renderer(logger, name, safe)), *map(visible, trace.splitlines())]))

    return [render]


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    """Return a copy of ``value`` with only types that JSON can represent. ``clean`` is applied to each text in it."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {clean(str(key)): _cleaned(each, clean) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_cleaned(each, clean) for each in value]
        case bytes() | bytearray():
            return clean(bytes(value[: _LONGEST_VALUE + 1]).decode("utf-8", "backslashreplace"))
    return clean(str(value))


def _utf8(text: str) -> str:
    r"""Return a text with lone surrogates escaped, which are not valid in UTF-8.

    >>> _utf8("caf\udce9")
    'caf\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _thread_failed(args: threading.ExceptHookArgs) -> None:
    """Log an uncaught exception that ends a thread. It is the value of ``threading.excepthook``."""
    if args.exc_value is None or isinstance(args.exc_value, SystemExit):
        return
    import structlog

    thread = args.thread.name if args.thread is not None else ""
    structlog.get_logger("dumpfilter").error(UNEXPECTED, thread=thread, exc_info=args.exc_value)
