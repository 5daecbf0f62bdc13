"""Slaves of one master with their filter rules: from a slaves file, a replica's option file, or the command line.

A slaves file (TOML) names many slaves, each with the rate and delay of its link to the master. A replica's own option
file (``my.cnf``) and a text such as ``web:--replicate-do-db=shop`` describe one slave, or one for each channel.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.arguments import OptionNames, from_command_line, server_option
from dumpfilter.base.options.config_files import GivenOption, Model, load_toml, read_options_file
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.base import OriginFilter, ReplicationFilter
from dumpfilter.filter.channels import ChannelFilters, split_channel
from dumpfilter.filter.rules import SLAVE_RULE_KINDS, FilterSemantics, RuleKind, make_rule
from dumpfilter.topology.links.shape import PLAIN, LinkShape
from dumpfilter.topology.model import Shape, filter_of

OPTION_FILE_SUFFIXES = (".cnf", ".ini")
"""The endings of the names of option files. Other files of slaves are TOML."""

_MOST_ID = 0xFFFFFFFF
_ServerId = Annotated[int, Field(ge=1, le=_MOST_ID)]
_Ids = Annotated[frozenset[Annotated[int, Field(ge=0, le=_MOST_ID)]], Field(default=frozenset())]

_KINDS = {kind.option: kind for kind in SLAVE_RULE_KINDS}
_IDS = ("ignore-server-ids", "do-domain-ids", "ignore-domain-ids")
_SAME_ID = "replicate-same-server-id"
_NUMBERS = {"server-id": _MOST_ID, "lower-case-table-names": 2}
"""The options whose values are numbers, each with the largest number."""
_OPTIONS = OptionNames(dict.fromkeys([*_KINDS, *_NUMBERS, *_IDS], False) | {_SAME_ID: True})
_IN_FILES = [*(kind.option for kind in RuleKind), *_NUMBERS, "report-host"]
_FILE_OPTIONS = OptionNames(dict.fromkeys(_IN_FILES, False) | {_SAME_ID: True})
_OPTION_IN_NAME = re.compile(r"\s-|--")
_NO_NAME = ("", "my")
"""The stems of option files whose names do not distinguish replicas. The directory's name is then the slave's name."""


@dataclass(frozen=True)
class SlaveDefinition:
    """A slave of one master, with its filter rules and the link to the master, as input of simulations and Spark jobs.
    The slave need not exist.

    A slave with a ``server_id`` does not receive transactions with this server id, as in real replication. ``origin``
    drops transactions by their server ids and domain ids; None: it would drop none.
    """

    name: str
    rules: tuple[str, ...]
    semantics: FilterSemantics
    lower_case_table_names: int
    server_id: int | None = None
    origin: OriginFilter | None = None
    link: LinkShape = PLAIN

    def filter(self, names: NameRules, *, without: int | None = None) -> ReplicationFilter:
        """Return the slave's replication filter, without the rule at the index ``without`` (None: with all rules).

        ``names`` says how the server compares schema and table names. Raises OptionError, whose text names the slave.
        """
        names = names._replace(lower_case_table_names=self.lower_case_table_names)
        rules = [rule for number, rule in enumerate(self.rules) if number != without]
        try:
            return filter_of(rules, names, self.semantics)
        except OptionError as error:
            raise OptionError(f"slave {self.name!r}: rules: {error}") from None


def slaves_of(files: Iterable[Path], texts: Iterable[str]) -> list[SlaveDefinition]:
    """Return the slaves, with their filters, that files and command line texts describe.

    A file is a list of slaves in TOML, or a replica's option file, whose name ends in ``.cnf`` or ``.ini``. A text is a
    slave's name, a colon, and its filter options, such as ``web:--replicate-do-db=shop
    --replicate-ignore-table=shop.log``. Raises OptionError for a wrong file or text, and for two slaves of one name.
    """
    found: list[SlaveDefinition] = []
    for file in files:
        found += slaves_of_my_cnf(file) if file.suffix in OPTION_FILE_SUFFIXES else load_slaves(file)
    for text in texts:
        found += slaves_of_text(text)
    _check_names(found)
    return found


def _check_names(slaves: Iterable[SlaveDefinition], place: str = "") -> None:
    """Raise OptionError if two of the slaves have the same name. The error's text begins with ``place``, such as a
    file's name and a colon.
    """
    for name, times in Counter(one.name for one in slaves).items():
        if times > 1:
            raise OptionError(f"{place}{name!r}: two slaves have this name; give each its own")


# -- slaves files


class _Slave(Model):
    name: Annotated[str, Field(min_length=1, max_length=64)]
    server_id: _ServerId | None = None
    rules: tuple[str, ...] = ()
    semantics: FilterSemantics = FilterSemantics.CLASSIC
    ignore_server_ids: _Ids
    do_domain_ids: _Ids
    ignore_domain_ids: _Ids
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    link: Shape = PLAIN

    def slave(self, number: int, lower_case_table_names: int) -> SlaveDefinition:
        """Return one of the slaves that an entry of a slaves file describes. ``number`` is the slave's index among the
        ``count`` slaves of the entry, from 0.

        ``lower_case_table_names`` is the server setting that the file has, by which the slave's filter compares names.
        """
        server_id = None if self.server_id is None else self.server_id + number
        return SlaveDefinition(
            self.name if self.count == 1 else f"{self.name}-{number + 1}",
            self.rules,
            self.semantics,
            lower_case_table_names,
            server_id,
            _origin(self.ignore_server_ids, self.do_domain_ids, self.ignore_domain_ids, server_id or 0),
            self.link,
        )


class _File(Model):
    slave: Annotated[tuple[_Slave, ...], Field(min_length=1)]
    lower_case_table_names: Annotated[int, Field(ge=0, le=2)] = 0


def load_slaves(path: Path) -> list[SlaveDefinition]:
    """Read a slaves file, which lists slaves, their filter rules and links in TOML (docs/bandwidth.md).

    An entry with ``count = N`` stands for N slaves. Their names end in ``-1``, ``-2`` …, and their server ids are
    consecutive. Raises OptionError, with the file and the key, for an invalid file.
    """
    parsed = load_toml(path, _File)
    found: list[SlaveDefinition] = []
    for number, one in enumerate(parsed.slave, 1):
        try:
            slaves = [one.slave(k, parsed.lower_case_table_names) for k in range(one.count)]
            slaves[0].filter(NameRules())
        except OptionError as error:
            raise OptionError(f"{path}: slave[{number}]: {error}") from None
        found += slaves
    _check_names(found, f"{path}: ")
    return found


def _origin(*filter_: Any) -> OriginFilter | None:
    """Return a slave's filter of server ids and domain ids, or None if the filter would drop nothing.

    ``filter_`` has the ignored server ids, the wanted and the ignored domain ids, and the slave's own server id (0: its
    own transactions are wanted). Raises OptionError for ids that exclude each other.
    """
    made = OriginFilter(*filter_)
    return made if made.is_on else None


# -- options of a replica


def slaves_of_text(text: str) -> list[SlaveDefinition]:
    """Return the slaves that a text such as ``web:--replicate-do-db=shop`` describes: a slave's name, a colon, and the
    filter options of a replica. An option for a channel (``--replicate-do-db=ch1:shop``) makes a slave of each channel.

    The options are quoted as in a shell. Raises OptionError for another form of text, and for a wrong option.

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
    try:
        return _slaves(_options(options), name.strip())
    except OptionError as error:
        raise OptionError(f"slave {name!r}: {error}") from None


def slaves_of_my_cnf(path: Path) -> list[SlaveDefinition]:
    """Return the slaves that a replica's own option file describes, with the filter options of its server sections.

    The slave's name is the option ``report_host``, or else the file's name without its ending. A file ``my.cnf`` has
    the name of its directory. Options for channels make a slave of each channel. Raises OptionError, with file and
    line, for a wrong option.
    """
    named = (server_option(option, _FILE_OPTIONS) for option in read_options_file(path))
    name = path.absolute().parent.name if path.stem in _NO_NAME else path.stem
    try:
        return _slaves((one for one in named if one is not None), name or str(path))
    except OptionError as error:
        # An error about one option names its line already.
        raise OptionError(str(error) if str(error).startswith(f"{path}:") else f"{path}: {error}") from None


def _slaves(options: Iterable[GivenOption], name: str) -> list[SlaveDefinition]:
    """Return the slaves that the options of one replica describe, one for each channel that the options name. The slave
    of a named channel is called ``NAME/CHANNEL``, and the slave of the default channel ``name``. If the options name no
    channel, there is one slave called ``name``. The option ``report-host`` replaces ``name``.

    Raises OptionError for invalid rules, and for a wrong value, with the line of an option file.
    """
    filters = ChannelFilters()
    channels: dict[str, None] = {}
    """The channels in the order of the options (a dict as an ordered set). The default channel's name is empty."""
    values: dict[str, Any] = {}
    """The values of the options that are no filter rules, by their names."""
    for given in options:
        option, value = given.name, str(given.value)
        try:
            if option in _KINDS:
                channel, rule = split_channel(value)
                channels[channel or ""] = None
                filters.startup(channel, [make_rule(_KINDS[option], rule)])
            elif option in _IDS:
                values[option] = frozenset(_number(option, one) for one in value.split(",") if one.strip())
            else:
                values[option] = (
                    _number(option, value, _NUMBERS[option]) if option in _NUMBERS else given.value
                )
        except OptionError as error:
            raise given.error(str(error)) from None
    filters.finish_startup(list(channels) or [""])
    name = str(values.get("report-host") or name)
    server_id = values.get("server-id", 0)
    ids = [values.get(option, frozenset()) for option in _IDS]
    origin = _origin(*ids, 0 if values.get(_SAME_ID) else server_id)
    found = []
    for channel in channels or [""]:
        current = filters.current(channel)
        slave = SlaveDefinition(
            f"{name}/{channel}" if channel else name,
            tuple(map(str, current.rules)),
            current.semantics,
            values.get("lower-case-table-names", 0),
            server_id or None,
            origin,
        )
        slave.filter(NameRules())
        found.append(slave)
    return found


def _options(text: str) -> Iterator[GivenOption]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise OptionError(f"{text!r}: {error}") from None
    for word in from_command_line(words, _OPTIONS):
        if isinstance(word, GivenOption):
            if word.value is None:
                raise OptionError(f"--{word.name}: a value is missing")
            yield word
        elif word.startswith("--"):
            _OPTIONS.find(GivenOption(word.removeprefix("--").partition("=")[0], None))
        else:
            raise OptionError(f"{word!r} is no option; an option begins with two dashes")


def _number(option: str, text: str, most: int = _MOST_ID) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= most:
        raise OptionError(f"{option}: {text!r} is not a whole number from 0 to {most}")
    return number
