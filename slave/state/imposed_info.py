"""What the master imposes on a channel, in the state file ``imposed.info``: the applier asks it too, also after a
restart while the master is not there."""

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
    """What ``imposed.info`` says: the contract's messages, in base 64."""

    filters: list[str] = Field(default_factory=list)


def load(directory: Path) -> tuple[pb.ImposedFilter, ...]:
    """As the newest registration's answer had it; none when there is no file. Raises StateCorrupt."""
    info = state_file.load(directory / NAME, NAME, ImposedInfo) or ImposedInfo()
    try:
        return tuple(pb.ImposedFilter.FromString(base64.b64decode(one)) for one in info.filters)
    except (DecodeError, ValueError) as error:
        raise StateCorrupt(f"{directory / NAME}: cannot be read ({error}); {AFRESH}") from error


def save(directory: Path, imposed: Sequence[pb.ImposedFilter]) -> None:
    """Replace the file. Raises OutputError."""
    filters = [base64.b64encode(one.SerializeToString()).decode() for one in imposed]
    state_file.save(directory / NAME, NAME, ImposedInfo(filters=filters), synced=True)
