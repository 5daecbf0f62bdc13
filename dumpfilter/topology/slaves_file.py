"""The slaves file, a TOML file that names many slaves of one master, with their filter rules and links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.toml_file import Model, load_toml
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter import FilterSemantics
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.topology.links.shape import PLAIN, LinkShape
from dumpfilter.topology.model import LinkTable, filter_of

_ServerId = Annotated[int, Field(ge=1, le=0xFFFFFFFF)]
_Ids = Annotated[frozenset[Annotated[int, Field(ge=0, le=0xFFFFFFFF)]], Field(default=frozenset())]


class _Slave(Model):
    name: Annotated[str, Field(min_length=1, max_length=64)]
    server_id: _ServerId | None = None
    rules: tuple[str, ...] = ()
    semantics: FilterSemantics = FilterSemantics.CLASSIC
    ignore_server_ids: _Ids
    do_domain_ids: _Ids
    ignore_domain_ids: _Ids
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    link: LinkTable = LinkTable()


class _File(Model):
    slave: Annotated[tuple[_Slave, ...], Field(min_length=1)]
    lower_case_table_names: Annotated[int, Field(ge=0, le=2)] = 0


@dataclass(frozen=True)
class SlaveDefinition:
    """A slave of one master, with its filter rules and the link to the master, for simulations and for Spark jobs.

    A slave with a ``server_id`` does not receive transactions with this server id, as in real replication. ``origin``
    is the slave's filter of server ids and domain ids, or None.
    """

    name: str
    rules: tuple[str, ...]
    semantics: FilterSemantics
    lower_case_table_names: int
    server_id: int | None = None
    origin: OriginFilter | None = None
    link: LinkShape = PLAIN

    def filter(
        self,
        names: NameRules,
        *,
        without: int | None = None,
    ) -> ReplicationFilter:
        """Return the slave's replication filter, without the rule at the index ``without`` (None: with all rules).

        ``names`` says how the server compares schema and table names. Raises OptionError, whose text names the slave.
        """
        names = names._replace(lower_case_table_names=self.lower_case_table_names)
        rules = [rule for number, rule in enumerate(self.rules) if number != without]
        try:
            return filter_of(rules, names, self.semantics)
        except OptionError as error:
            raise OptionError(f"slave {self.name!r}: rules: {error}") from None


def load_slaves(path: Path) -> list[SlaveDefinition]:
    """Read a slaves file, which lists slaves, their filter rules and links in TOML (docs/bandwidth.md).

    An entry with ``count = N`` stands for N slaves. Their names end in ``-1``, ``-2`` …, and their server ids are
    consecutive. Raises OptionError with the file and the key.
    """
    parsed = load_toml(path, _File)
    found: list[SlaveDefinition] = []
    for number, one in enumerate(parsed.slave, 1):
        try:
            for k in range(one.count):
                server_id = None if one.server_id is None else one.server_id + k
                origin = OriginFilter(
                    one.ignore_server_ids, one.do_domain_ids, one.ignore_domain_ids, server_id or 0
                )
                slave = SlaveDefinition(
                    one.name if one.count == 1 else f"{one.name}-{k + 1}",
                    one.rules,
                    one.semantics,
                    parsed.lower_case_table_names,
                    server_id,
                    origin if origin.is_on else None,
                    one.link.shape(),
                )
                found.append(slave)
            found[-one.count].filter(NameRules())
        except OptionError as error:
            raise OptionError(f"{path}: slave[{number}]: {error}") from None
    check_names(found, f"{path}: ")
    return found


def check_names(slaves: Iterable[SlaveDefinition], place: str = "") -> None:
    """Raise OptionError if two slaves have the same name. The error's text begins with ``place`` (``FILE: ``)."""
    for name, times in Counter(one.name for one in slaves).items():
        if times > 1:
            raise OptionError(f"{place}{name!r}: two slaves have this name; give each its own")
