"""Owners: for each table, statement and event of a binlog set, the outputs of a split that receive it.

An output is a binlog set that the split writes. A subject is a table or statement about which a filter decides, with a
number in its binlog set.

The module also has the specification of a split: one binlog per schema, or the binlogs that a specification file
defines. Each binlog of a specification has a replication filter, and receives the events that a slave with this filter
would receive. The idea comes from MySQL's worklog 2387, "Binlog extensions". A schema's name is encoded as a file name
as servers do (``tablename_to_filename``).

A task reads a range (a sequence of complete transactions in one file) in blocks of about 16 MiB. The part of a block
that one output receives is a share. An event's owner number stands for the combination of outputs that receive it. The
dump thread's own code (:mod:`dumpfilter.dump.decision`) decides: each output acts as a filter, and each owner number as
a subject. The filter sends the subject if the output belongs to the combination. Up to 64 outputs are decided at once.

A transaction may continue in the next block. The events on which later decisions depend are kept as a carry, for each
output that already owns an event of the transaction. One more carry is kept for all outputs that own no event of it so
far, because such an output may own a later event.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import Model, load_toml
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import OF_FILES
from dumpfilter.binlog.format import NameRules
from dumpfilter.dump.atoms import Columns
from dumpfilter.dump.chunk import WHOLE_SEGMENT, ChunkPlan, ReadAt, render
from dumpfilter.dump.decision import Asked, Carry, Decided, columns_of, decide, with_carry
from dumpfilter.dump.payload import close_payload, open_payload
from dumpfilter.filter.base import OnUndecided, ReplicationFilter
from dumpfilter.filter.filter import make_filter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F, MOST_HITS
from dumpfilter.filter.rules import FilterSemantics, parse_option
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects

NO_OUTPUT = 0
"""The owner number of events that belong to no output (binlog set of a split) by themselves. An owner number stands for
the combination of outputs that receive an event.

GTID, BEGIN and context events (such as Intvar) have this number, because an output receives them only with other events
of their transaction or statement.
"""

NOBODY = -1
"""The index of the last row of the array :meth:`Owners.sent`. The other rows stand for the outputs (binlog sets that a
split writes), and the last one for an output that receives nothing.
"""

REST = "@rest"
"""The name of the output (binlog set that a split writes) for events without a schema. No encoded schema name is equal
to this name, because there four hexadecimal digits follow every single ``@``.
"""

MAX_LENGTH = 200
"""The maximum length of an encoded schema name, characters. File systems allow names of 255 bytes, and a suffix such
as ``-bin.000001.tmp`` is added.
"""

_SAFE = re.compile("[^0-9A-Za-z_]")
_UNIT = re.compile("[0-9a-f]{4}")
_ESCAPE = re.compile("@([0-9a-f]{4})")


def encode_name(name: str) -> str:
    """Return a schema's name encoded as a file name. Each character outside ``[0-9A-Za-z_]`` becomes ``@`` and four
    hexadecimal digits.

    Servers have a second, shorter form for some 1500 letters (``é`` is ``@0n`` or ``@00e9``). This function always
    uses the long form, so that no schema is named :data:`REST`. A character above U+FFFF, which servers do not
    allow, becomes two UTF-16 units. A byte that is not UTF-8 is encoded as its surrogate (surrogateescape). A result
    longer than :data:`MAX_LENGTH` is cut and ends in ``@@`` and a digest; :func:`decode_name` cannot decode it.

    >>> encode_name("db,3"), encode_name("a_b")
    ('db@002c3', 'a_b')
    """
    encoded = _SAFE.sub(lambda m: _UNIT.sub(r"@\g<0>", m[0].encode("utf-16-be", "surrogatepass").hex()), name)
    if len(encoded) > MAX_LENGTH:
        digest = hashlib.sha256(encoded.encode("ascii")).hexdigest()[:16]
        encoded = f"{encoded[: MAX_LENGTH - 18].rpartition('@')[0] or encoded[: MAX_LENGTH - 18]}@@{digest}"
    return encoded


def decode_name(encoded: str) -> str:
    """Return the schema name that :func:`encode_name` encoded as ``encoded``.

    A name that was cut to the maximum length cannot be decoded, and is returned unchanged.

    >>> decode_name("db@002c3")
    'db,3'
    """
    if "@@" in encoded:
        return encoded
    name = _ESCAPE.sub(lambda m: chr(int(m[1], 16)), encoded)
    # Two UTF-16 surrogates stand for one character above U+FFFF. A single surrogate stands for a byte that is no
    # UTF-8, and stays.
    return name.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


class Owners:
    """A register that gives each table and statement an owner number: a number for the combination of outputs that
    receive its events. An output is a binlog set that a split writes.

    An owner number is an index into ``combinations``.

    Parameters:
        subjects: the register that numbers tables and statements.
        outputs_of: returns the names of the outputs that receive the rows events of a table, or the event of a
            statement.
        default: the names of the outputs that receive a transaction without any event that belongs to outputs, such as
            an empty transaction.
        undecided: the names of the outputs that receive events about which no filter can decide. These are incidents,
            events of unknown types, and rows events without a table map.
        unknown_xa_ends: the names of the outputs that receive an XA COMMIT or XA ROLLBACK whose transaction was
            prepared before the binlog set. The set does not show which tables such a transaction changed.
    """

    def __init__(
        self,
        subjects: Subjects,
        outputs_of: Callable[[Subject], Sequence[str]],
        default: Sequence[str],
        undecided: Sequence[str],
        unknown_xa_ends: Sequence[str],
    ) -> None:
        self._subjects, self._outputs_of = subjects, outputs_of
        self._of: list[int] = []
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self.combinations: list[tuple[int, ...]] = []
        """The distinct combinations of outputs that receive an event together, as tuples of indexes into ``names``.

        For example, a statement that changes tables of two schemas goes to both schemas' outputs. The first
        combination is empty (:data:`NO_OUTPUT`).
        """
        self._codes: dict[tuple[int, ...], int] = {}
        self.code(())
        self.default = self._code_of(default)
        self.undecided = self._code_of(undecided)
        self.unknown_xa_ends = self._code_of(unknown_xa_ends)

    def _code_of(self, names: Iterable[str]) -> int:
        for name in names:
            if self._numbers.setdefault(name, len(self.names)) == len(self.names):
                self.names.append(name)
        return self.code(self._numbers[name] for name in names)

    def code(self, outputs: Iterable[int]) -> int:
        """Return the owner number that stands for a combination of outputs, the binlog sets of a split that together
        receive an event.

        ``outputs`` are indexes of outputs in ``names``. A new combination gets the next free number.
        """
        key = tuple(sorted(set(outputs)))
        found = self._codes.setdefault(key, len(self.combinations))
        if found == len(self.combinations):
            self.combinations.append(key)
        return found

    def sent(self) -> npt.NDArray[np.uint32]:
        """Return which outputs receive which events, in the form of filters' verdicts: a uint32 array with a row for
        each output and a column for each owner number. An entry is FILTER_BINLOG_SEND_F (the flag "send") if the output
        receives the events with this owner number, and 0 if not.

        An output is a binlog set that the split writes. An owner number stands for a combination of outputs that
        receive an event together. The last row is for an output that receives nothing.
        """
        found = np.zeros((len(self.names) + 1, len(self.combinations)), np.uint32)
        for number, outputs in enumerate(self.combinations):
            found[outputs, number] = FILTER_BINLOG_SEND_F
        return found

    def array(self) -> npt.NDArray[np.int32]:
        """Return an int32 array with the owner number of each table and statement registered so far. The index is the
        number of the table or statement in the register ``subjects``.

        An owner number stands for the combination of outputs (binlog sets of the split) that receive an event.
        """
        for number in range(len(self._of), len(self._subjects)):
            members = self._subjects.members(number)
            if members is None:
                code = self._code_of(self._outputs_of(self._subjects[number]))
            else:
                # XA COMMIT or ROLLBACK goes to every output that received part of the prepared transaction.
                code = self.code(k for member in members for k in self.combinations[self._of[member]])
            self._of.append(code)
        return np.array(self._of, np.int32)


def encoded_schemas(subject: Subject) -> tuple[str, ...]:
    """Return the schemas to which a table or statement belongs, as names encoded for file names, sorted and distinct. A
    split by schema writes the events to the binlogs of these schemas.
    """
    return tuple(sorted({encode_name(name) for name in subject.schemas()}))


def schemas_or_rest(subject: Subject) -> tuple[str, ...]:
    """Return the names of the outputs (binlog sets) of a split by schema that receive a table's rows, or a statement.
    An output has the encoded name of its schema. Events without a schema go to the output :data:`REST`.
    """
    return encoded_schemas(subject) or (REST,)


def schemas_among(subjects: Iterable[Subject]) -> tuple[str, ...]:
    """Return the schemas to which any of ``subjects`` (tables and statements) belongs, as names encoded for file names,
    sorted and distinct.
    """
    return tuple(sorted({name for one in subjects for name in encoded_schemas(one)}))


_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,199}")


class NamedBinlog(Model):
    """An entry of a specification file: the name of a binlog that the split writes, and the filter that chooses its
    events.
    """

    name: str
    rules: tuple[str, ...] = ()
    """The filter's rules as server options, such as ``--replicate-do-db=shop``. Without rules all events go into the
    binlog."""
    semantics: FilterSemantics = FilterSemantics.CLASSIC


class _Rest(Model):
    name: str


class _File(Model):
    binlog: Annotated[tuple[NamedBinlog, ...], Field(min_length=1)]
    rest: _Rest | None = None
    lower_case_table_names: Annotated[int, Field(ge=0, le=2)] = 0


@dataclass(frozen=True)
class Specification:
    """The user's choice of the binlogs that a split writes, by names and filters. Without ``binlogs`` the split writes
    one binlog for each schema.
    """

    binlogs: tuple[NamedBinlog, ...] = ()
    rest: str | None = None
    """The name of the binlog for events that no other binlog receives. None: such events are dropped."""
    lower_case_table_names: int = 0

    @property
    def by_schema(self) -> bool:
        """Whether the split writes one binlog for each schema, rather than the binlogs that a file defines."""
        return not self.binlogs

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the binlogs that the specification file defines. The split writes them even if they receive no
        event.
        """
        return tuple(one.name for one in self.binlogs) + ((self.rest,) if self.rest is not None else ())

    def filters(self, names: NameRules) -> list[tuple[str, ReplicationFilter]]:
        """Return the name and the replication filter of each binlog that the split writes.

        ``names`` has the rules by which the source's server compares names. Their ``lower_case_table_names`` is
        replaced by the value in the user's specification. Raises OptionError that names the binlog, for a bad rule.
        """
        names = names._replace(lower_case_table_names=self.lower_case_table_names)
        found = []
        for one in self.binlogs:
            try:
                rules = [parse_option(rule, one.semantics) for rule in one.rules]
                found.append((one.name, make_filter(one.semantics, rules, names=names)))
            except OptionError as error:
                raise OptionError(f"binlog {one.name!r}: rules: {error}") from None
        return found

    def owners(
        self, subjects: Subjects, names: NameRules, unknown_xa_schemas: tuple[str, ...] = ()
    ) -> Owners:
        """Return an object that finds for each table and statement the binlogs of the split that receive its events.

        Parameters:
            subjects: the register that numbers tables and statements.
            names: the rules by which the server that wrote the source compares schema and table names.
            unknown_xa_schemas: in a split by schema, the schemas whose binlogs receive each XA COMMIT and XA ROLLBACK
                whose transaction was prepared before the source.
        """
        if self.by_schema:
            return Owners(subjects, schemas_or_rest, [REST], [REST], unknown_xa_schemas or [REST])
        filters = self.filters(names)
        rest = [] if self.rest is None else [self.rest]

        def passing(subject: Subject) -> Sequence[str]:
            return [name for name, one in filters if one.verdict(subject).passes] or rest

        # A slave whose filter has no rules receives every transaction, even an empty transaction.
        default = [name for name, one in filters if not one.is_on] or rest
        return Owners(subjects, passing, default, self.names, self.names)


BY_SCHEMA = Specification()
"""The specification of a split that writes one binlog for each schema."""


def load_specification(path: Path) -> Specification:
    """Read and check a specification file (TOML), which defines by names and filter rules the binlogs into which
    ``dumpfilter split`` divides a binlog set.

    Raises OptionError that names the file and the bad key, name or rule.
    """
    parsed = load_toml(path, _File)
    made = Specification(
        parsed.binlog, None if parsed.rest is None else parsed.rest.name, parsed.lower_case_table_names
    )
    seen: set[str] = set()
    for name in made.names:
        if not _FILE_NAME.fullmatch(name):
            raise OptionError(
                f"{path}: {name!r}: a binlog's name becomes a file's name: letters, digits, _ . @ + and -, "
                "at most 200, not a dot first"
            )
        if name.casefold() in seen:
            raise OptionError(f"{path}: {name!r}: two binlogs have this name")
        seen.add(name.casefold())
    try:
        made.filters(NameRules())
    except OptionError as error:
        raise OptionError(f"{path}: {error}") from None
    return made


FILE_EVENTS = np.isin(np.arange(256), list(OF_FILES))
"""For each of the 256 event types, whether it belongs to the file, such as Format_description or Rotate. The split
does not copy such events, because it makes new ones for each file.
"""


class _OutputFlags:
    """One output of a split in the form of a filter. An output is one of the binlog sets into which a split divides a
    binlog set. The split lets the dump thread's code choose the events of each output, as this code chooses the events
    that a filter sends to a slave.

    An owner number stands for a combination of outputs that receive an event together. ``row`` has an entry for each
    owner number. The entry is FILTER_BINLOG_SEND_F (the flag "send") if this output belongs to the combination, and 0
    if not. Where the dump thread's code reads a filter's verdict about a table, it here reads the entry of the event's
    owner number.

    ``addresses`` returns the row with its memory address, which stays valid as long as the row is held. The class
    implements :class:`dumpfilter.dump.decision.Flags`.
    """

    is_on = True
    on_undecided = OnUndecided.SEND
    _no_hits: npt.NDArray[np.int8] = np.empty((0, MOST_HITS), np.int8)

    def __init__(self, row: npt.NDArray[np.uint32]) -> None:
        self._addresses = (row, row.ctypes.data, self._no_hits, 0)

    def addresses(self) -> tuple[npt.NDArray[np.uint32], int, npt.NDArray[np.int8], int]:
        return self._addresses


class Assigner:
    """A planner that decides which events each output of a split receives. An output is a binlog set that the split
    writes.

    An object decides about one range, a sequence of complete transactions in one file. ``owners`` finds the outputs of
    each table and statement. The caller must pass the range's segments (consecutive events) in order. The object keeps
    the state of a transaction that continues in the next segment.
    """

    def __init__(self, owners: Owners) -> None:
        self.owners = owners
        self._open: dict[int, Carry] = {}
        """For each output (binlog set of the split, by index) that received an event of the transaction that continues,
        its earlier events on which later decisions depend. The entry of :data:`NOBODY` is for all other outputs.
        """

    def assign(self, segment: Segment, read: ReadAt) -> dict[int, ChunkPlan]:
        """Return the bytes of the next segment that each output (binlog set that the split writes) receives, as a plan
        for each output. The key is the index of the output in :attr:`Owners.names`. Outputs that receive nothing are
        left out.

        A plan has the pieces of the source file that the output receives, and the new bytes of compressed transactions
        that the output receives only in part. The first pieces may precede the segment. They are events such as GTID,
        BEGIN and table maps of a transaction that began in an earlier segment. The output needs these events only now,
        because its rows of the transaction follow in this segment.

        A segment is a sequence of consecutive events of a file. ``read(offset, length)`` reads bytes of this file,
        which is needed for compressed transactions of which an output receives only some events.
        """
        parts: dict[int, dict[int, bytes]] = {}
        columns = self._columns(segment, read, parts)
        flags = [_OutputFlags(row) for row in self.owners.sent()]
        begun, carried = self._open, self._open.pop(NOBODY, None)
        present = {*begun, *parts, *([NOBODY] if segment.open else [])}
        for code in (self.owners.default, *np.flatnonzero(np.bincount(columns.subject)).tolist()):
            present.update(self.owners.combinations[code])
        alone = [[k] for k in present if k in begun or k in parts]
        together = [*present.difference(*alone)]
        decided: dict[int, Decided] = {}
        for outputs in [together, *alone] if together else alone:
            seen, carry = columns, begun.get(outputs[0], carried)
            if of_output := parts.get(outputs[0]):
                events = [*of_output]
                size, role = columns.size.copy(), columns.role.copy()
                size[events] = [*map(len, of_output.values())]
                role[events] = R.REPLACED | (role[events] & R.ENDS)
                seen = columns._replace(size=size, role=role)
            asked = [Asked(flags[k], 0, WHOLE_SEGMENT, segment.start, segment.start) for k in outputs]
            found = decide(segment.file, seen if carry is None else with_carry(seen, carry), asked)
            decided.update(zip(outputs, found, strict=True))
        carries = {output: one.carry for output, one in decided.items() if one.carry is not None}
        least = len(carries[NOBODY].events) if segment.open else 0
        self._open = {
            output: carry
            for output, carry in carries.items()
            if output == NOBODY or output in begun or carry.is_kept or len(carry.events) > least
        }
        shares = {output: one.plans[0] for output, one in sorted(decided.items()) if len(one.plans[0].ranges)}
        for output, of_output in parts.items():
            shares[output].replaced = {int(segment.offset[k]): data for k, data in of_output.items()}
        return shares

    def _columns(self, segment: Segment, read: ReadAt, parts: dict[int, dict[int, bytes]]) -> Columns:
        """Return the columns of a segment (consecutive events of a file) with owner numbers in place of the numbers of
        tables and statements. An owner number stands for the combination of outputs (binlog sets of the split) that
        receive an event.

        Store in ``parts`` the new bytes of each compressed transaction of which an output receives only some events, by
        output number and then by event index. ``read`` returns bytes of the source file.
        """
        owners, ends = self.owners, segment.role & np.uint8(R.ENDS)
        role = segment.role & np.uint8(R.ROLE_MASK)
        # No output receives a file event inside a transaction, such as Rotate. Neither does an output receive a Gap
        # event, a relay log's note about dropped transactions.
        is_hidden = (role == R.GAP) | ((role == R.KEEP) & FILE_EVENTS[segment.type])
        # Owners decide about rows, statements, incidents and all other events that no filter decides about.
        decides = ((role >= R.TABLE_MAP) & (role <= R.STATEMENT)) | (role >= R.KEEP)
        # Rows events without a table map, incidents, and events of unknown types have no table or statement.
        subject = np.where(role == R.KEEP, -1, np.maximum(segment.subject, -1))
        owner = np.where(decides, np.append(owners.array(), np.int32(owners.undecided))[subject], NO_OUTPUT)
        owner[list(segment.unknown_ends)] = owners.unknown_xa_ends
        for event, inner in segment.payloads.items():
            owner[event] = self._look_inside(segment, event, inner, read, parts)
        owner[is_hidden] = NO_OUTPUT
        new_role = np.where(is_hidden, R.HIDDEN, np.where(role >= R.KEEP, R.STATEMENT, role)).astype(np.uint8)
        begins = segment.txn_event[:-1]
        lowest = np.minimum.reduceat(np.where(decides, owner, np.iinfo(np.int32).max), begins)
        highest = np.maximum.reduceat(np.where(decides, owner, -1), begins)
        # A table map without rows events changes no table. Therefore a transaction in which outputs own only table maps
        # belongs to no output.
        is_owned = np.maximum.reduceat(np.where(role == R.TABLE_MAP, NO_OUTPUT, owner), begins) != NO_OUTPUT
        is_mixed = (lowest != highest) | np.logical_or.reduceat(is_hidden, begins)
        txn_owner = np.where(is_owned, np.where(is_mixed, R.MIXED, lowest), owners.default).astype(np.int32)
        txn_owner[segment.txn_source == R.KEPT] = R.SKIP
        for of_output in parts.values():
            txn_owner[[segment.transaction_of(event) for event in of_output]] = R.MIXED
        if segment.continues:
            txn_owner[0] = R.MIXED
            # A segment that ends inside a transaction has no other transaction.
            if not (segment.open or is_owned[0] or any(carry.is_kept for carry in self._open.values())):
                # No output owns an event of the transaction that began in an earlier segment and ends in this one.
                # Therefore the default outputs receive the transaction: they own its last event.
                last = int(segment.txn_event[1]) - 1
                new_role[last], owner[last] = R.STATEMENT, owners.default
                self._open = {NOBODY: self._open[NOBODY]}
        return columns_of(segment)._replace(
            role=new_role | ends,
            subject=owner.astype(np.int32),
            txn_subject=txn_owner,
            txn_set=np.zeros_like(segment.txn_set),
            has_gaps=False,
        )

    def _look_inside(
        self, segment: Segment, event: int, inner: Segment, read: ReadAt, parts: dict[int, dict[int, bytes]]
    ) -> int:
        """Return the owner number of a compressed transaction. This number stands for the combination of outputs
        (binlog sets of the split) that receive any event inside.

        ``event`` is the index of the transaction's event in ``segment`` (consecutive events of a file), and ``inner``
        has the events inside. If an output receives only some of them, the bytes of a new compressed transaction with
        these events are stored in ``parts[output][event]``. ``read`` returns bytes of the source file.
        """
        shares = Assigner(self.owners).assign(inner, read)
        source, data = b"", b""
        fd = segment.format_description
        for output, plan in shares.items():
            if plan.size == inner.end:
                continue
            if not source:
                source = read(int(segment.offset[event]), int(segment.size[event]))
                data = open_payload(source, fd)
            kept = render(plan, data, 0, read, inner.format_description)
            parts.setdefault(output, {})[event] = close_payload(kept, source, fd)
        return self.owners.code(shares)
