"""Drafts: the nodes of a topology as a notation has them, before their kinds are known and their names are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dumpfilter.binlog.format import Family
from dumpfilter.links.shape import PLAIN, LinkShape

Role = Literal["master", "slave"]

Where = Callable[[str], str]
"""A function that returns the place of a node's key for an error, such as ``fan.toml: node.web.rules``."""


@dataclass(frozen=True)
class Workload:
    """A workload as a notation has it."""

    size: int = 1 << 20
    rate: int | None = None
    seed: int = 1
    style: Family | None = None
    """None: the family of the first real server that the workload reaches, or else ``mysql``."""


@dataclass(frozen=True)
class Recording:
    """A recording as a notation has it."""

    binlogs: Path
    speed: float | None = 1.0


@dataclass(frozen=True)
class Server:
    """A real server as a notation has it."""

    family: Family
    program: str | None = None
    init: tuple[str, ...] = ()
    gtid: bool = True


@dataclass(frozen=True)
class Running:
    """A running server as a notation has it."""

    url: str


Kind = Workload | Recording | Server | Running
"""The kinds of node that are neither masters nor slaves of dumpfilter."""


@dataclass(frozen=True)
class DraftReading:
    """One source of a draft."""

    source: str
    where: Where
    link: LinkShape = PLAIN
    rules: tuple[str, ...] = ()
    """Rules as the notation has them, such as ``do-db=shop``, unchecked."""


@dataclass(frozen=True)
class Draft:
    """One node as a notation has it."""

    name: str
    where: Where
    kind: Kind | None = None
    """None: a master or a slave of dumpfilter."""
    role: Role | None = None
    """The role that the notation says. None: the role follows from the node's sources, rules and readers."""
    reads: tuple[DraftReading, ...] = ()
    options: tuple[str, ...] = ()
    own_master: bool = False
    """Whether the name of a workload or recording is that of the master that reads it, as in the short string."""
