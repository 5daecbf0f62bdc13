"""Messages of the contract that describe slaves, and checks of the messages that slaves send."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable

from dumpfilter.errors import OptionError
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.master.chunks import counts_to_proto
from dumpfilter.master.imposed import ImposedFilter
from dumpfilter.master.register import RegisteredSlave
from dumpfilter.v1 import dumpfilter_pb2 as pb

MAX_RULES = 10_000
"""The most rules that a filter may have."""

MAX_NAME = 1024
"""The longest value of a rule, host name, channel or user, characters."""

_SHOWN_UUID = 80
_SHOWN_RULE = 60


def check_registration(request: pb.RegisterRequest) -> str:
    """Return the slave's UUID in its usual form. Raises OptionError for fields that cannot be used."""
    if not request.server_id:
        raise OptionError("server_id 0: a slave needs a server id from 1 to 4294967295")
    try:
        uuid = str(uuids.UUID(request.uuid))
    except ValueError:
        raise OptionError(f"uuid {request.uuid[:_SHOWN_UUID]!r} is not a UUID") from None
    for name in ("host", "channel", "user"):
        value = getattr(request, name)
        if len(value) > MAX_NAME:
            raise OptionError(f"{name}: longer than {MAX_NAME} characters")
    return uuid


def check_rules(definition: pb.FilterDefinition) -> None:
    """Raise OptionError for a filter with too many rules or too long ones."""
    if len(definition.rules) > MAX_RULES:
        raise OptionError(f"{len(definition.rules)} rules: at most {MAX_RULES}")
    for rule in definition.rules:
        if len(rule.value) > MAX_NAME:
            raise OptionError(f"rule {rule.value[:_SHOWN_RULE]!r}…: longer than {MAX_NAME} characters")


def imposed_to_proto(imposed: Iterable[ImposedFilter]) -> list[pb.ImposedFilter]:
    """Return the contract's form of imposed filters."""
    return [pb.ImposedFilter(name=each.name, filter=filter_to_proto(each.filter)) for each in imposed]


def slave_to_proto(slave: RegisteredSlave, *, with_id: bool) -> pb.Slave:
    """Return the contract's form of a registered slave. ``with_id`` gives the id that the slave registered under."""
    return pb.Slave(
        slave_id=slave.slave_id if with_id else "",
        server_id=slave.server_id,
        uuid=slave.uuid,
        host=slave.host,
        port=slave.port,
        channel=slave.channel,
        filter=filter_to_proto(slave.filter),
        filter_version=slave.filter_version,
        dumping=bool(slave.dump),
        position=pb.BinlogPosition(file=slave.file, position=slave.position),
        counts=counts_to_proto(slave.counts),
        registered_at=slave.registered_at,
        last_seen_at=slave.last_seen_at,
        imposed=imposed_to_proto(slave.imposed),
        user=slave.user,
    )
