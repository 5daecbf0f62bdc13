"""The log of a process: its format, text or JSON, its least level, and where every line goes.

All parts of the product log through structlog, with an event and fields. Libraries such as grpc and asyncio log through
the standard library. :func:`configure` sends both through the same steps to standard error. An event's name is a stable
lower-case phrase, so that programs can look for it.
"""

from __future__ import annotations

import enum
import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, MutableMapping
from typing import Any, ClassVar

from dumpfilter.printable import printable, visible

# Each function imports structlog when it runs, because the import takes longer than the answer to --help.

AUDIT = "dumpfilter.audit"
"""The logger of the audit log. Its lines appear at every level, because each tells of a change or a refused change."""

UNEXPECTED = "unexpected error"
"""The event of an error that no part of the product expected."""

_LONGEST_VALUE = 20_000
"""The length at which a text in a log line is cut, characters."""

MOST_LINES = 100
"""The most lines with one event that the log has in a period. Strangers can cause lines, such as those of logins."""
LINES_PERIOD = 10.0
"""The period of :data:`MOST_LINES`, seconds."""

Event = MutableMapping[str, Any]


class Format(enum.StrEnum):
    """The form of the log's lines: text for people, or one JSON object a line for programs."""

    TEXT = "text"
    JSON = "json"


class Level(enum.StrEnum):
    """The least level of the lines that the log has."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def number(self) -> int:
        """The level's number in the standard library."""
        return int(logging.getLevelNamesMapping()[self.value.upper()])


class _State:
    """The configuration of the process's log."""

    format: Format | None = None
    """The format of the log. None before :func:`configure`."""
    level: Level = Level.DEBUG
    """The least level of the log's lines. Before :func:`configure` no line is held back."""
    preferred_format: Format | None = None
    preferred_level: Level | None = None
    """The level that the user has chosen for every command (:func:`prefer`), as the format above."""
    rates: ClassVar[dict[tuple[str, str], Seldom]] = {}
    """The gates of the lines, by logger and event."""
    thread_hook: Callable[[threading.ExceptHookArgs], Any] | None = None
    """The hook for errors that end a thread, as it was before :func:`configure`."""


class Seldom:
    """A gate for log lines of which strangers could cause any number. It lets ``most`` lines through in each period."""

    def __init__(self, period: float = LINES_PERIOD, most: int = 1) -> None:
        self._period = period
        self._most = most
        self._left = 0
        self._next = 0.0
        self._held = 0
        self._lock = threading.Lock()

    @property
    def is_shut(self) -> bool:
        """Whether the period has had its lines."""
        return not self._left

    def allows(self) -> int | None:
        """Return the number of lines held back since the last one, or None when this line must be held back, too."""
        with self._lock:
            now = time.monotonic()
            if now >= self._next:
                self._next, self._left = now + self._period, self._most
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
    """Tell whether the process's log has lines of a level. Texts that stand beside the log follow its level, too."""
    return level.number >= _State.level.number


def prefer(format: Format | None, level: Level | None) -> None:
    """Note the format and level that the user has chosen for every command. None leaves the choice to the command."""
    _State.preferred_format, _State.preferred_level = format, level


def configure_preferred(
    format: Format | None = None,
    level: Level | None = None,
    *,
    otherwise: Level = Level.WARNING,
    colors: bool = False,
) -> None:
    """Configure the log with a command's own format and level, or else with the preferred ones.

    ``otherwise`` is the level when the user has chosen none.
    """
    configure(
        format or _State.preferred_format or Format.TEXT,
        level or _State.preferred_level or otherwise,
        colors=colors,
    )


def configure(format: Format = Format.TEXT, level: Level = Level.INFO, *, colors: bool = False) -> None:
    """Configure this process to write its log to standard error.

    A progress bar may replace ``sys.stderr`` while it runs. Therefore the log looks ``sys.stderr`` up for every line.
    An error that ends a thread, and that nothing expected, becomes a line of the log, too.
    """
    if _State.format is None:
        _State.thread_hook = threading.excepthook
    _State.format, _State.level = format, level
    _State.rates.clear()
    import structlog

    least = level.number
    with_traceback = level is Level.DEBUG
    steps: list[Any] = [
        lambda logger, name, event: _leveled(logger, name, event, least),
        _within_rate,
        structlog.processors.TimeStamper("iso", utc=True),
        lambda logger, name, event: _with_error(event, with_traceback=with_traceback),
        _as_json if format is Format.JSON else _text_renderer(colors=colors),
    ]
    structlog.configure(
        processors=steps,
        wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET),
        logger_factory=_Sink,
        cache_logger_on_first_use=False,
    )
    handler = LibraryHandler(steps)
    root = logging.getLogger()
    for old in [one for one in root.handlers if isinstance(one, LibraryHandler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(max(least, logging.INFO))
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
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, LibraryHandler)]:
        root.removeHandler(handler)
    root.setLevel(logging.WARNING)
    logging.captureWarnings(False)
    threading.excepthook = _State.thread_hook or threading.__excepthook__


class _Sink:
    """The end of the log: it writes one rendered line to standard error. structlog makes one for each logger."""

    def __init__(self, name: str = "dumpfilter", *more: object) -> None:
        self.name = name

    def write(self, line: str) -> None:
        try:
            # One call is one line, also if several threads write.
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            # Standard error may be closed or its disk full. A log that fails must not stop the replication.
            pass

    debug = info = warning = error = critical = msg = write


def _leveled(logger: Any, name: str, event: Event, least: int) -> Event:
    """Add level and logger to an event, or drop an event below the least level."""
    import structlog

    if logging.getLevelNamesMapping().get(name.upper(), logging.INFO) < least and logger.name != AUDIT:
        raise structlog.DropEvent
    event["level"] = name
    event["logger"] = logger.name
    return event


def _within_rate(logger: Any, name: str, event: Event) -> Event:
    """Drop a line of which the period has had enough. The event's next line has the number of dropped ones.

    The audit log drops nothing.
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
    """Replace an exception by its text, and by its traceback only if the log has the level debug."""
    info = event.pop("exc_info", None)
    if not info:
        return event
    if isinstance(info, BaseException):
        error: BaseException | None = info
    else:
        error = (info if isinstance(info, tuple) else sys.exc_info())[1]
    if error is None:
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


def _as_json(logger: Any, name: str, event: Event) -> str:
    """Render an event as one line of JSON, which is valid whatever the fields hold."""
    first = {key: event.pop(key) for key in ("timestamp", "level", "logger", "event") if key in event}
    # Only ASCII: some readers of lines also break them at characters such as U+2028.
    return json.dumps({_plain_key(key): _plain(value) for key, value in (first | dict(event)).items()})


def _plain_key(key: object) -> str:
    return _utf8(str(key))


def _plain(value: Any) -> Any:
    """Return a value that every parser of JSON accepts: no lone surrogates, no NaN, no objects."""
    match value:
        case None | bool():
            return value
        case int():
            return int(value)
        case float():
            return value if value == value and abs(value) != float("inf") else str(value)
        case str():
            return _utf8(_cut(value))
        case dict():
            return {_plain_key(key): _plain(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(each) for each in value]
        case bytes() | bytearray():
            return bytes(value[:_LONGEST_VALUE]).decode("utf-8", "backslashreplace")
    return _utf8(_cut(str(value)))


def _utf8(text: str) -> str:
    r"""Return a text without lone surrogates, which are not UTF-8.

    >>> _utf8("caf\udce9")
    'caf\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "…"


def _text_renderer(*, colors: bool) -> Callable[[Any, str, Event], str]:
    import structlog

    renderer = structlog.dev.ConsoleRenderer(colors=colors, pad_level=True)

    def render(logger: Any, name: str, event: Event) -> str:
        trace = event.pop("traceback", "")
        # The logger's name would make every line longer, and people know the process.
        event.pop("logger", None)
        safe = {printable(str(key)): _safe(value) for key, value in event.items()}
        lines = [str(renderer(logger, name, safe)), *map(visible, trace.splitlines())]
        return _utf8("\n".join(lines))

    return render


def _safe(value: Any) -> Any:
    """Return a value whose text is one line and cannot command a terminal."""
    match value:
        case None | int() | float():
            return value
        case list() | tuple() | set() | frozenset():
            return [_safe(each) for each in value]
    return printable(str(value), _LONGEST_VALUE)


class LibraryHandler(logging.Handler):
    """A handler of the standard library that sends records of libraries through the steps of the log."""

    def __init__(self, steps: list[Any]) -> None:
        super().__init__()
        self._steps = steps

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record as a line of the log. An error here must not stop the caller."""
        import structlog

        try:
            sink = _Sink(record.name)
            level = record.levelname.lower()
            line: Any = self._fields(record)
            if record.exc_info:
                line["exc_info"] = record.exc_info
            for step in self._steps:
                line = step(sink, level, line)
            sink.write(line)
        except structlog.DropEvent:
            pass

    def _fields(self, record: logging.LogRecord) -> Event:
        try:
            return {"event": "message of a library", "message": record.getMessage()}
        except Exception as error:
            # The format of a library's message may not fit its arguments.
            return {"event": "message of a library that cannot be shown", "error": str(error)}


def _thread_failed(args: threading.ExceptHookArgs) -> None:
    """Log an error that ends a thread and that nothing expected."""
    if args.exc_value is None or isinstance(args.exc_value, SystemExit):
        return
    import structlog

    thread = args.thread.name if args.thread is not None else ""
    structlog.get_logger("dumpfilter").error(UNEXPECTED, thread=thread, exc_info=args.exc_value)
