"""The state file ``imposed.info``: the filters that the master imposes on a channel.

The applier asks the imposed filters too, even after a restart while the master is unreachable.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from google.protobuf.message import DecodeError
from pydantic import Field

from dumpfilter.errors import StateCorrupt
from dumpfilter.slave.state import AFRESH, state_file
from dumpfilter.v1 import dumpfilter_pb2 as pb

NAME = "imposed.info"


class ImposedInfo(state_file.State):
    """The content of ``imposed.info``."""

    filters: list[str] = Field(default_factory=list)
    """Messages ``ImposedFilter``, each serialized and in base 64."""


def load(directory: Path) -> tuple[pb.ImposedFilter, ...]:
    """Return the imposed filters of the newest registration, none when there is no file. Raises StateCorrupt."""
    info = state_file.load(directory / NAME, NAME, ImposedInfo) or ImposedInfo()
    try:
        return tuple(pb.ImposedFilter.FromString(base64.b64decode(one)) for one in info.filters)
    except (DecodeError, ValueError) as error:
        raise StateCorrupt(f"{directory / NAME}: cannot be read ({error}); {AFRESH}") from error


def save(directory: Path, imposed: Sequence[pb.ImposedFilter]) -> None:
    """Replace the file. Raises OutputError."""
    filters = [base64.b64encode(one.SerializeToString()).decode() for one in imposed]
    state_file.save(directory / NAME, NAME, ImposedInfo(filters=filters), synced=True)
