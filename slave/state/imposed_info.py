"""The state file ``imposed.info``: the filters that the master's operator has set for this slave's channel.

The applier drops events by these filters, too, besides the slave's own filter. The file lets the applier do that
even after a restart of the slave while the master is unreachable.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.message import DecodeError
from pydantic import Field

from dumpfilter.base.errors import StateCorrupt
from dumpfilter.base.state_file import State, StateFile
from dumpfilter.slave.state import AFRESH, FORMAT
from dumpfilter.v1 import dumpfilter_pb2 as pb

NAME = "imposed.info"


class ImposedInfo(State):
    """The content of the state file ``imposed.info``: the filters that the master imposes on this slave."""

    filters: list[str] = Field(default_factory=list)
    """The imposed filters. Each is a protobuf message ``ImposedFilter``, serialized and encoded in base64."""


def load(directory: Path) -> tuple[pb.ImposedFilter, ...]:
    """Read the filters that the master imposed at the slave's newest registration.

    Without a file the result is empty. Raises StateCorrupt when the file is unusable.
    """
    info = _file(directory).load() or ImposedInfo()
    try:
        return tuple(pb.ImposedFilter.FromString(base64.b64decode(one)) for one in info.filters)
    except (DecodeError, ValueError) as error:
        raise StateCorrupt(f"{directory / NAME}: cannot be read ({error}); {AFRESH}") from error


def save(directory: Path, imposed: Sequence[pb.ImposedFilter]) -> None:
    """Write the imposed filters to ``imposed.info``, in place of the earlier ones. Raises OutputError."""
    filters = [base64.b64encode(one.SerializeToString()).decode() for one in imposed]
    _file(directory).save(ImposedInfo(filters=filters))


def _file(directory: Path) -> StateFile[ImposedInfo]:
    return StateFile(directory / NAME, ImposedInfo, FORMAT)
