"""The master's warnings about suspicious rules in the filters of registered slaves. A slave with warnings is still
served.

The check uses the tables and statements that the master has scanned for any slave so far, and reads no file.
``dumpfilter lint`` reads the whole binlog set, and shows the events.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from itertools import islice
from typing import NamedTuple

import structlog

from dumpfilter.analyse.lint.findings import FilterWarning, Level
from dumpfilter.analyse.lint.knowledge import knowledge_of
from dumpfilter.analyse.lint.linting import lint
from dumpfilter.base.printable import printable
from dumpfilter.base.security.throttle import Recent
from dumpfilter.filter import ReplicationFilter
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.master.register import RegisteredSlave, definition

MOST_SUBJECTS = 2000
"""The largest number of tables and statements against which the master checks a filter, to bound the time."""

MOST_RULES = 100
"""The largest number of rules in a filter that the master checks. Larger filters get no warnings."""

_MOST_PAIRS = 20_000
"""The largest number of pairs of a rule and a table or statement, so that a check takes at most some 0.2 s of CPU."""

_SHARE = 0.1
"""The largest share of a processor that checks take over a long time, however many filters slaves register."""

_BURST = 1.0
"""The CPU time that checks may take at once after a time without checks, seconds."""

_SECONDS = 60.0
"""The shortest time between two checks of the same filter, seconds."""

_MOST_FILTERS = 4096
"""The largest number of filters whose warnings are cached."""

_MOST_LOGGED = 10_000
"""The largest number of warnings that are remembered as logged."""

_LONGEST = 600
"""The length to which a warning is cut, characters, because a slave can choose long names in its rules."""

log = structlog.get_logger("dumpfilter.master")


class _Checked(NamedTuple):
    subjects: int
    """The number of tables and statements that the index knew at the time of the check."""
    at: float
    warnings: tuple[FilterWarning, ...]


class FilterWarnings:
    """The warnings about suspicious rules in filters. The rules are compared with the tables and statements in the
    binlog that were scanned so far. Thread-safe.

    ``clock`` returns a monotonic time in seconds.
    """

    def __init__(self, subjects: Subjects, clock: Callable[[], float] = time.monotonic) -> None:
        self._subjects = subjects
        self._clock = clock
        self._lock = threading.Lock()
        self._credit = _BURST
        """The CPU time that checks may still take, as of the time ``_credited_at``, seconds."""
        self._credited_at = clock()
        self._checked: Recent[Hashable, _Checked] = Recent(_MOST_FILTERS)
        self._logged: Recent[Hashable, None] = Recent(_MOST_LOGGED)

    def of(self, rule_filter: ReplicationFilter) -> tuple[FilterWarning, ...]:
        """Return the warnings about a filter. The check runs again at most once a minute, and only when the scanned
        binlog has shown new tables or statements.

        If checks have taken much processor time, return the warnings of the last check, or none if there was no check.
        A filter with more than MOST_RULES rules is not checked, and has none.
        """
        if not rule_filter.rules or len(rule_filter.rules) > MOST_RULES:
            return ()
        key = definition(rule_filter)
        with self._lock:
            before = self._checked.get(key)
            now = self._clock()
            if before is not None and (before.subjects == len(self._subjects) or now < before.at + _SECONDS):
                self._checked.move_to_end(key)
                return before.warnings
            self._credit = min(_BURST, self._credit + (now - self._credited_at) * _SHARE)
            self._credited_at = now
            if self._credit <= 0:
                return () if before is None else before.warnings
            begin = time.thread_time()
            most = min(MOST_SUBJECTS, _MOST_PAIRS // len(rule_filter.rules))
            with self._subjects.lock:
                count = len(self._subjects)
                subjects = list(islice(self._subjects.since(0), most))
            warnings = _checked(rule_filter, subjects)
            self._credit -= time.thread_time() - begin
            self._checked[key] = _Checked(count, now, warnings)
            return warnings

    def texts(self, slave: RegisteredSlave) -> list[str]:
        """Return the warnings about a slave's filter as lines of text. Log the warnings that were not logged for this
        slave before.
        """
        found = []
        for warning in self.of(slave.filter):
            text = printable(str(warning), _LONGEST)
            found.append(text)
            key = (*slave.peer.key, text)
            with self._lock:
                is_new = key not in self._logged
                self._logged[key] = None
            if is_new:
                log.warning(
                    "filter warning",
                    **slave.peer.fields,
                    code=warning.code.value,
                    warning=text,
                    hint="dumpfilter lint shows the events",
                )
        return found


def _checked(rule_filter: ReplicationFilter, subjects: list[Subject]) -> tuple[FilterWarning, ...]:
    try:
        found = lint(rule_filter, knowledge_of(subjects, is_whole=False))
    except Exception:
        # A fault of the check must not keep a slave from its binlog.
        log.exception("a filter could not be checked", rules=len(rule_filter.rules))
        return ()
    return tuple(each for each in found if each.level is Level.WARNING)
