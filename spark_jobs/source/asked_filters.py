"""The filters that a query of the data source names by its options ``filter``, ``slaves`` and ``slave.NAME``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from dumpfilter.errors import OptionError
from dumpfilter.topology import slave_options
from dumpfilter.topology.slaves_file import SlaveDefinition

SENT = "sent_"
"""The beginning of the names of columns that tell whether a slave is sent an event."""

ONE_SLAVE = "slave."
"""The beginning of the names of options that give the filter of one slave."""


def filter_of(given: Mapping[str, str]) -> SlaveDefinition | None:
    """Return the filter that every row must pass, from the option ``filter``; None without the option.

    Raises OptionError.
    """
    if "filter" not in given:
        return None
    found = _described("filter", given["filter"], "option filter")
    if len(found) > 1:
        raise OptionError(
            "option filter: the rules name several channels; a filter has the rules of one channel"
        )
    return found[0]


def slaves_of(given: Mapping[str, str]) -> tuple[SlaveDefinition, ...]:
    """Return the slaves for which the query has a column, from the options ``slaves`` and ``slave.NAME``.

    Raises OptionError, also if two slaves have the same column.
    """
    files = [Path(line.strip()) for line in given.get("slaves", "").splitlines() if line.strip()]
    found = slave_options.slaves_of(files, ())
    for name, text in given.items():
        if name.startswith(ONE_SLAVE):
            found += _described(name.removeprefix(ONE_SLAVE), text, f"option {name}")
    columns: dict[str, str] = {}
    for one in found:
        column = sent_column(one.name)
        other = columns.setdefault(column.lower(), one.name)
        if other is not one.name:
            raise OptionError(
                f"the slaves {other!r} and {one.name!r} have the same column {column}; rename one"
            )
    return tuple(found)


def _described(name: str, text: str, option: str) -> list[SlaveDefinition]:
    if not name:
        raise OptionError(f"{option}: a slave needs a name, for example slave.web")
    try:
        return slave_options.slaves_of_text(f"{name}:{text}")
    except OptionError as error:
        raise OptionError(f"{option}: {str(error).removeprefix(f'slave {name!r}: ')}") from None


def sent_column(slave: str) -> str:
    """Return the name of the column that tells whether a slave is sent an event.

    Characters that a name in SQL cannot have without quotes become underscores.

    >>> sent_column("web"), sent_column("web-1")
    ('sent_web', 'sent_web_1')
    """
    return SENT + re.sub(r"\W", "_", slave)
