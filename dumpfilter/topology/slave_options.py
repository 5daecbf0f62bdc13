"""Slaves that are described by filter options: on the command line, or in a replica's own option file (``my.cnf``)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.arguments import server_options
from dumpfilter.base.options.my_cnf import read_options_file
from dumpfilter.base.options.names import Named, OptionNames
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.channels import ChannelFilters, split_channel
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.filter.rules import SLAVE_RULE_KINDS, RuleKind, make_rule
from dumpfilter.topology.slaves_file import SlaveDefinition, check_names, load_slaves

OPTION_FILE_SUFFIXES = (".cnf", ".ini")
"""The endings of the names of option files. Other files of slaves are TOML."""

_KINDS = {kind.option: kind for kind in SLAVE_RULE_KINDS}
_IDS = ("ignore-server-ids", "do-domain-ids", "ignore-domain-ids")
_SAME_ID = "replicate-same-server-id"
_NUMBERS = {"server-id": 0xFFFFFFFF, "lower-case-table-names": 2}
"""The options whose values are numbers, each with the largest number."""
_OPTIONS = OptionNames([*_KINDS, *_NUMBERS, *_IDS], [_SAME_ID])
_FILE_OPTIONS = OptionNames([*(kind.option for kind in RuleKind), *_NUMBERS, "report-host"], [_SAME_ID])
_OPTION_IN_NAME = re.compile(r"\s-")
_NO_NAME = ("", "my")
"""The stems of option files whose names do not distinguish replicas. The directory's name is then the slave's name."""


def slaves_of(files: Iterable[Path], texts: Iterable[str]) -> list[SlaveDefinition]:
    """Return the slaves that the files ``files`` and the texts ``texts`` describe.

    A file is a slaves file (TOML), or a replica's option file, whose name ends in ``.cnf`` or ``.ini``. A text has the
    form ``NAME:OPTIONS``. Raises OptionError for a wrong file or text, and for two slaves of one name.
    """
    found: list[SlaveDefinition] = []
    for file in files:
        found += slaves_of_my_cnf(file) if file.suffix in OPTION_FILE_SUFFIXES else load_slaves(file)
    for text in texts:
        found += slaves_of_text(text)
    check_names(found)
    return found


def slaves_of_text(text: str) -> list[SlaveDefinition]:
    """Return the slaves that a text such as ``web:--replicate-do-db=shop`` describes: one, or one for each channel.

    The options are quoted as in a shell. Raises OptionError.

    >>> [slave] = slaves_of_text("web:--replicate-do-db=shop --replicate-ignore-table shop.log")
    >>> slave.name, slave.rules
    ('web', ('--replicate-do-db=shop', '--replicate-ignore-table=shop.log'))
    """
    name, _, options = text.partition(":")
    how = "write NAME:OPTIONS, such as 'web:--replicate-do-db=shop'"
    if not name.strip() or name.startswith("-"):
        raise OptionError(f"--slave {text!r}: the slave's name is missing; {how}")
    if _OPTION_IN_NAME.search(name):
        # The slave would have no filter, and figures that nobody asked for.
        raise OptionError(f"--slave {text!r}: the colon behind the slave's name is missing; {how}")
    replica = _Replica()
    try:
        for named in _options(options):
            replica.set(named)
        return replica.slaves(name.strip())
    except OptionError as error:
        raise OptionError(f"slave {name!r}: {error}") from None


def slaves_of_my_cnf(path: Path) -> list[SlaveDefinition]:
    """Return the slaves that a replica's own option file describes, with the filter options of its server sections.

    The slave's name is the option ``report_host``, or else the file's name without its ending. A file ``my.cnf`` has
    the name of its directory. Options for channels make a slave of each channel. Raises OptionError with file and line.
    """
    replica = _Replica()
    for option, named in server_options(read_options_file(path), _FILE_OPTIONS):
        try:
            replica.set(named)
        except OptionError as error:
            raise option.error(str(error)) from None
    name = path.absolute().parent.name if path.stem in _NO_NAME else path.stem
    try:
        return replica.slaves(str(replica.values.get("report-host") or name or path))
    except OptionError as error:
        raise OptionError(f"{path}: {error}") from None


@dataclass
class _Replica:
    """The options of one replica that have been read so far."""

    filters: ChannelFilters = field(default_factory=ChannelFilters)
    channels: dict[str, None] = field(default_factory=dict)
    """The channels that options name, in the order of the options (a dict as an ordered set). The default channel's
    name is empty.
    """
    values: dict[str, Any] = field(default_factory=dict)
    """The values of the other options, by their names."""

    def set(self, named: Named) -> None:
        """Apply one option to the replica. Raises OptionError for a wrong value."""
        value = str(named.value)
        if named.name in _KINDS:
            channel, rule = split_channel(value)
            self.channels[channel or ""] = None
            self.filters.startup(channel, [make_rule(_KINDS[named.name], rule)])
        elif named.name in _IDS:
            ids = (_number(named.name, one) for one in value.split(",") if one.strip())
            self.values[named.name] = frozenset(ids)
        elif named.name in _NUMBERS:
            self.values[named.name] = _number(named.name, value, _NUMBERS[named.name])
        else:
            self.values[named.name] = named.value

    def slaves(self, name: str) -> list[SlaveDefinition]:
        """Return one slave for each channel that the options name. Without such a channel there is one slave.

        Raises OptionError for invalid rules.
        """
        channels = list(self.channels) or [""]
        self.filters.finish_startup(channels)
        server_id = self.values.get("server-id", 0)
        servers, domains, others = (self.values.get(option, frozenset()) for option in _IDS)
        origin = OriginFilter(servers, domains, others, 0 if self.values.get(_SAME_ID) else server_id)
        found = []
        for channel in channels:
            current = self.filters.current(channel)
            slave = SlaveDefinition(
                f"{name}/{channel}" if channel else name,
                tuple(map(str, current.rules)),
                current.semantics,
                self.values.get("lower-case-table-names", 0),
                server_id or None,
                origin if origin.is_on else None,
            )
            slave.filter(NameRules())
            found.append(slave)
        return found


def _options(text: str) -> Iterator[Named]:
    try:
        tokens = iter(shlex.split(text))
    except ValueError as error:
        raise OptionError(f"{text!r}: {error}") from None
    for token in tokens:
        if not token.startswith("--"):
            raise OptionError(f"{token!r} is no option; an option begins with two dashes")
        spelled, equals, value = token.removeprefix("--").partition("=")
        named = _OPTIONS.find(spelled, value if equals else None)
        if named is None:
            continue
        if named.value is None:
            following = next(tokens, None)
            if following is None:
                raise OptionError(f"{token}: a value is missing")
            named = Named(named.name, following)
        yield named


def _number(option: str, text: str, most: int = 0xFFFFFFFF) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= most:
        raise OptionError(f"{option}: {text!r} is not a whole number from 0 to {most}")
    return number
