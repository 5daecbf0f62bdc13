"""gRPC messages that describe slaves, and checks of the requests that slaves send."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Iterable

from dumpfilter import __version__
from dumpfilter.base.errors import OptionError
from dumpfilter.base.printable import printable
from dumpfilter.dump.stream.versions import PROTOCOL, Peer, check_versions
from dumpfilter.filter.convert import filter_to_proto
from dumpfilter.master.chunks import counts_to_proto
from dumpfilter.master.facts import SLAVES, SlaveView
from dumpfilter.master.imposed import ImposedFilter
from dumpfilter.master.known_slaves import KnownSlave
from dumpfilter.master.limits import MAX_GTID_TEXT, MAX_IDS, MAX_NAME, MAX_RULES, MAX_RULES_TEXT
from dumpfilter.v1 import dumpfilter_pb2 as pb

SHORTEST_SECRET, LONGEST_SECRET = 16, 64
"""The least and the largest length of a slave's registration secret, bytes. A slave without a secret can never replace
its registration.
"""

_FACTS = frozenset(pb.Slave.DESCRIPTOR.fields_by_name) - {"position", "counts"}
"""The names that a column of ``dumpfilter.slaves`` shares with a field of the gRPC message, with a value of the same
type.
"""

_SHOWN_UUID = 80
_SHOWN_RULE = 60


def check_registration(request: pb.RegisterRequest) -> str:
    """Check the fields of a slave's registration, and return the slave's UUID in lower case with hyphens.

    Raises OptionError for server id 0, a malformed UUID, a name that is too long, or a secret of a wrong length.
    """
    if not request.server_id:
        raise OptionError("server_id 0: a slave needs a server id from 1 to 4294967295")
    try:
        uuid = str(uuids.UUID(request.uuid))
    except ValueError:
        raise OptionError(f"uuid {request.uuid[:_SHOWN_UUID]!r} is not a UUID") from None
    for name in ("host", "channel", "user", "program_version"):
        value = getattr(request, name)
        if len(value) > MAX_NAME:
            raise OptionError(f"{name}: longer than {MAX_NAME} characters")
    if request.secret and not SHORTEST_SECRET <= len(request.secret) <= LONGEST_SECRET:
        raise OptionError(
            f"secret: {len(request.secret)} bytes; give {SHORTEST_SECRET} to {LONGEST_SECRET} random bytes, or none"
        )
    return uuid


def check_protocol(request: pb.RegisterRequest) -> None:
    """Raise ProtocolMismatch when this master does not support the version of the gRPC protocol that the slave uses."""
    check_versions(
        slave=Peer(request.protocol, printable(request.program_version)), master=Peer(PROTOCOL, __version__)
    )


def check_filter(definition: pb.FilterDefinition) -> None:
    """Check the size of a filter that a slave sent. Raises OptionError for too many or too long rules or id lists."""
    if len(definition.rules) > MAX_RULES:
        raise OptionError(f"{len(definition.rules)} rules: at most {MAX_RULES}")
    total = 0
    for rule in definition.rules:
        length = len(rule.value)
        if length > MAX_NAME:
            raise OptionError(f"rule {rule.value[:_SHOWN_RULE]!r}…: longer than {MAX_NAME} characters")
        total += length
    if total > MAX_RULES_TEXT:
        raise OptionError(
            f"the rules have {total} characters together: at most {MAX_RULES_TEXT}; use wild rules, which stand for "
            "many tables"
        )
    for name in ("ignore_server_ids", "do_domain_ids", "ignore_domain_ids"):
        number = len(getattr(definition.origin, name))
        if number > MAX_IDS:
            raise OptionError(f"{name}: {number} ids: at most {MAX_IDS}")


def check_dump_request(request: pb.DumpRequest) -> None:
    """Check the lengths of the GTID sets in a request for a dump. Raises OptionError for a set of more than
    MAX_GTID_TEXT characters.
    """
    for name in ("gtid_set", "except_gtids", "received_gtids"):
        length = len(getattr(request, name))
        if length > MAX_GTID_TEXT:
            raise OptionError(
                f"{name}: {length} characters: at most {MAX_GTID_TEXT}; start the slave with a file and a position"
            )


def imposed_to_proto(imposed: Iterable[ImposedFilter]) -> list[pb.ImposedFilter]:
    """Return gRPC messages with the name and the rules of each filter that the master's operator imposes on a slave."""
    return [pb.ImposedFilter(name=each.name, filter=filter_to_proto(each.filter)) for each in imposed]


def slave_to_proto(slave: KnownSlave, filter_warnings: Iterable[str] = ()) -> pb.Slave:
    """Return the gRPC message that describes a slave, registered or not, without its id and secret.

    ``filter_warnings`` are the warnings about the slave's filter.
    """
    view = SlaveView(slave, None)
    facts = {name: value for name, value in SLAVES.document(view, _FACTS).items() if value is not None}
    return pb.Slave(
        **facts,
        position=pb.BinlogPosition(file=slave.file, position=slave.position),
        counts=counts_to_proto(slave.counts),
        filter_warnings=filter_warnings,
    )
