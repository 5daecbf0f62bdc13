"""Recordings printed as text, for the tests of printing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dumpfilter.analyse.printing.options import MayFail, TextOptions
from dumpfilter.analyse.printing.text import TextPrinter
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.dump.set_pass import kept_pieces, one_event
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.clever import CleverFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogSet
from tests.oracle.recordings import Recording, all_recordings

BINLOG = re.compile(rb"^BINLOG '\n(.*?)'/\*!\*/;$", re.MULTILINE | re.DOTALL)
"""A BINLOG statement, with its content in base64."""


def printed(
    files: Path | list[Path],
    loads: Path,
    rules: ReplicationFilter | None = None,
    *,
    clever: bool = False,
    skip_gtids: bool = True,
) -> tuple[bytes, list[str]]:
    """Return the text of the events that pass, and the warnings."""
    rules = Filter() if rules is None else rules
    out: list[bytes] = []
    warnings: list[str] = []
    printer = TextPrinter(
        out.append,
        text_options(loads, skip_gtids=skip_gtids),
        rules=rules,
        warn=warnings.append,
    )
    follow = CleverFilter(rules, warn=warnings.append) if clever else None
    for number, kept in enumerate(kept_pieces(BinlogSet.open(files), rules, clever=follow)):
        if not number:
            printer.begin()
        printer.events(kept)
    printer.end()
    return b"".join(out), warnings


def text_options(loads: Path, **more: Any) -> TextOptions:
    """Return the options of a text that has the statements as they are in the binlog."""
    return TextOptions(local_load=loads, may_fail=MayFail.PRINT, **more)


def print_event(
    printer: TextPrinter, event: bytes, offset: int, fd: FormatDescription, file: str = "bin.000001"
) -> None:
    """Print one event immediately."""
    printer.events(one_event(file, fd, offset, event))
    printer.flush()


def recording(name: str) -> Recording:
    (found,) = [one for one in all_recordings() if one.name == name]
    return found


def events_in(files: list[Path]) -> Iterator[Event]:
    for path in files:
        with path.open("rb") as source:
            yield from iter_events(source, file=path.name)
