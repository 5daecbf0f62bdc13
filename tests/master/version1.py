"""A slave of version 1 of the protocol, made from the contract of release 0.1.0.

The messages come from a frozen copy of that contract (``tests/data/v1``), so that a field which today's contract lacks
is read and written as the old program did. :class:`OldSlave` keeps what the old program's relay log and ``master.info``
kept, and advances as that program did: only to resume points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from dumpfilter.binlog.events import MAGIC
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.gtid import GtidSet, parse_gtid_set
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter import Filter
from dumpfilter.filter.convert import kind_from_number
from dumpfilter.filter.hits import Hits
from dumpfilter.slave.targets import SummaryTarget
from dumpfilter.slave.threads.applier import EventApplier
from dumpfilter.slave.threads.gtids import add_runs
from tests.slave.driven import wait_until

DATA = Path(__file__).parent.parent / "data" / "v1"

UUID = "00000000-0000-0000-0000-000000000077"
"""The server UUID of the slave."""

_SERVICE = "dumpfilter.v1.DumpFilter"


class OldContract:
    """The message classes and calls of version 1 of the protocol."""

    def __init__(self, channel: grpc.Channel) -> None:
        files = descriptor_pb2.FileDescriptorSet.FromString((DATA / "dumpfilter.binpb").read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        self._pool = pool
        self._channel = channel

    def message(self, name: str, **fields: Any) -> Any:
        """Make a message of version 1."""
        descriptor = self._pool.FindMessageTypeByName(f"dumpfilter.v1.{name}")
        return message_factory.GetMessageClass(descriptor)(**fields)

    def call(self, name: str, request: Any) -> Any:
        """Call a method of the service. The answer of ``Dump`` is the stream."""
        method = self._pool.FindServiceByName(_SERVICE).FindMethodByName(name)
        answer = message_factory.GetMessageClass(method.output_type)
        kind = self._channel.unary_stream if method.server_streaming else self._channel.unary_unary
        return kind(
            f"/{_SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )(request)


class OldSlave:
    """A slave of release 0.1.0: its relay logs, its received GTIDs, and the hits that the master told."""

    def __init__(self, contract: OldContract, options: list[str], family: Family) -> None:
        self.contract = contract
        self.options = options
        self.family = family
        self.place = ("", 4)
        """The resume point in the master's binlog."""
        self.retrieved: GtidSet = parse_gtid_set("", family)
        self.empty: GtidSet = parse_gtid_set("", family)
        self.hits: Hits = Counter()
        self.files: dict[str, bytearray] = {}
        """The received events by the master's file, with the format description event."""
        self._complete = 0
        """The bytes of the newest file up to the resume point."""
        self._waiting: list[Any] = []
        self._later_hits: Hits = Counter()

    def definition(self, options: list[str]) -> Any:
        """Make the message for a filter."""
        rules = [
            self.contract.message("Rule", kind=rule.kind.option.replace("-", "_").upper(), value=rule.value)
            for rule in Filter.from_options(options).rules
        ]
        return self.contract.message("FilterDefinition", rules=rules)

    def register_once(self) -> Any:
        """Register, without another attempt."""
        request = self.contract.message(
            "RegisterRequest", server_id=77, uuid=UUID, filter=self.definition(self.options)
        )
        return self.contract.call("Register", request)

    def register(self) -> Any:
        """Register, and try again after the status UNAVAILABLE, as release 0.1.0 did."""
        answers = []

        def registered() -> bool:
            try:
                answers.append(self.register_once())
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
            return bool(answers)

        wait_until(registered)
        return answers[0]

    def dump(self, slave_id: str, **more: Any) -> Any:
        """Ask for a dump from the resume point on. What lies beyond the resume point is given up."""
        if self.place[0]:
            del self.files[self.place[0]][self._complete :]
        self._waiting.clear()
        self._later_hits.clear()
        start = self.contract.message("BinlogPosition", file=self.place[0], position=self.place[1])
        fields = {"slave_id": slave_id, "filter_version": 1, "from": start, "once": True}
        return self.contract.call("Dump", self.contract.message("DumpRequest", **fields | more))

    def receive(self, chunk: Any) -> None:
        """Take a chunk in, as the receiver of release 0.1.0 did."""
        assert chunk.filter_version == 1
        if chunk.heartbeat and chunk.file != self.place[0]:
            return
        if chunk.file != self.place[0]:
            assert chunk.format_description
            assert not self.files or len(self.files[self.place[0]]) == self._complete
            self.files[chunk.file] = bytearray(chunk.format_description)
            self._complete = len(chunk.format_description)
            self.place = (chunk.file, chunk.start_position)
        elif chunk.format_description:
            assert self.files[chunk.file].startswith(chunk.format_description)
            first = len(MAGIC) + len(chunk.format_description)
            assert max(chunk.start_position, first) == max(self.place[1], first)
        assert chunk.resume_position >= self.place[1]
        before = len(self.files[chunk.file])
        self.files[chunk.file] += chunk.events
        self._waiting.append(chunk)
        self._later_hits.update(hits_of(chunk))
        is_inside = before > self._complete or chunk.resume_position == self.place[1]
        if not chunk.resume_bytes and is_inside:
            return
        for one in self._waiting:
            add_runs(self.retrieved, one.completed)
            add_runs(self.empty, one.empty)
        self._waiting.clear()
        self.hits.update(self._later_hits)
        self._later_hits.clear()
        self.place = (chunk.file, chunk.resume_position)
        self._complete = before + chunk.resume_bytes

    def apply(self) -> tuple[dict[str, Any], Hits]:
        """Apply the relay logs with the slave's own filter. Return the summary, and the hits of both sides."""
        target, hits = SummaryTarget(), Counter(self.hits)
        applier = EventApplier(Filter.from_options(self.options, names=NameRules(self.family)), target)
        for name, data in self.files.items():
            for event in iter_events(BytesIO(MAGIC + bytes(data)), file=name):
                applier.feed(event, file=name)
        hits.update(applier.hits)
        return target.state(), hits


def hits_of(chunk: Any) -> Hits:
    """Return the hits that a chunk of version 1 tells."""
    found: Hits = Counter()
    for hit in chunk.hits:
        kind = kind_from_number(hit.kind)
        assert kind is not None
        found[kind] += hit.count
    return found


def interrupted(stream: Iterator[Any], after: int, take: Callable[[Any], None]) -> bool:
    """Take up to ``after`` chunks of a stream and cancel it. Return whether the stream had ended."""
    for number, chunk in enumerate(stream):
        if number == after:
            stream.cancel()  # type: ignore[attr-defined]
            return False
        take(chunk)
    return True
