"""The filters that a query of the data source names by its options ``filter``, ``slaves`` and ``slave.NAME``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from dumpfilter.errors import OptionError
from dumpfilter.filter.rules import FilterSemantics, parse_option
from dumpfilter.topology.slaves_file import SlaveDefinition, load_slaves

SENT = "sent_"
"""The beginning of the names of columns that tell whether a slave is sent an event."""

ONE_SLAVE = "slave."
"""The beginning of the names of options that give the filter of one slave."""


def filter_of(given: Mapping[str, str]) -> SlaveDefinition | None:
    """Return the filter that every row must pass, from the option ``filter``; None without the option.

    Raises OptionError.
    """
    text = given.get("filter")
    return None if text is None else _definition("filter", text, "option filter")


def slaves_of(given: Mapping[str, str]) -> tuple[SlaveDefinition, ...]:
    """Return the slaves for which the query has a column, from the options ``slaves`` and ``slave.NAME``.

    Raises OptionError, also if two slaves have the same column.
    """
    found = list(load_slaves(Path(given["slaves"]))) if "slaves" in given else []
    for name, text in given.items():
        if name.startswith(ONE_SLAVE):
            found.append(_definition(name.removeprefix(ONE_SLAVE), text, f"option {name}"))
    columns: dict[str, str] = {}
    for one in found:
        column = sent_column(one.name)
        other = columns.setdefault(column.lower(), one.name)
        if other is not one.name:
            raise OptionError(
                f"the slaves {other!r} and {one.name!r} have the same column {column}; rename one"
            )
    return tuple(found)


def sent_column(slave: str) -> str:
    """Return the name of the column that tells whether a slave is sent an event.

    Characters that a name in SQL cannot have without quotes become underscores.

    >>> sent_column("web"), sent_column("web-1")
    ('sent_web', 'sent_web_1')
    """
    return SENT + re.sub(r"\W", "_", slave)


def _definition(name: str, text: str, option: str) -> SlaveDefinition:
    if not name:
        raise OptionError(f"{option}: a slave needs a name, for example slave.web")
    try:
        made = SlaveDefinition(name, tuple(shlex.split(text)), FilterSemantics.CLASSIC, 0)
    except ValueError as error:
        raise OptionError(f"{option}: {text!r}: {error}") from None
    try:
        for rule in made.rules:
            parse_option(rule)
    except OptionError as error:
        raise OptionError(f"{option}: {error}") from None
    return made
