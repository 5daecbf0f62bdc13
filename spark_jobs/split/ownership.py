"""Owners: for each table and statement of a binlog set, the outputs of a split that receive its events.

An output is a binlog set that the split writes. A subject is a table or statement about which a filter decides, with
a number in its binlog set.

The module also has the specification of a split: one binlog per schema, or the binlogs that a specification file
defines. Each binlog of a specification has a replication filter, and receives the events that a slave with this
filter would receive. The idea comes from MySQL's worklog 2387, "Binlog extensions". A schema's name is encoded as a
file name as servers do (``tablename_to_filename``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.toml_file import Model, load_toml
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter import FilterSemantics, make_filter, parse_option
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.flags import FILTER_BINLOG_SEND_F
from dumpfilter.index.subjects import Subject, Subjects

REST = "@rest"
"""The name of the output for events without a schema. It cannot be an encoded schema name, in which four hexadecimal
digits follow every single ``@``.
"""

MAX_LENGTH = 200
"""The maximum length of an encoded schema name, characters. File systems allow names of 255 bytes, and a suffix such
as ``-bin.000001.tmp`` is added.
"""

_SAFE = re.compile("[^0-9A-Za-z_]")
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
    encoded = _SAFE.sub(lambda m: "".join(f"@{unit:04x}" for unit in _utf16(m[0])), name)
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
    return re.sub(
        "[\ud800-\udbff][\udc00-\udfff]",
        lambda m: m[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"),
        name,
    )


def _utf16(character: str) -> list[int]:
    raw = character.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(raw[k : k + 2], "little") for k in range(0, len(raw), 2)]


NO_OUTPUT = 0
"""The owner number that stands for no output. GTID, BEGIN and context events (such as Intvar) have it, because they
follow their transaction or statement.
"""


class Owners:
    """Finds the outputs that receive the events of each table and statement. An output is a binlog set that a split
    writes.

    In a split by filters, each of ``filters`` has one output, which receives the events that the master would send to a
    slave with this filter. ``rest`` is the name of a further output for events that all filters drop (None: no such
    output). In a split by schema, ``filters`` is None. Each schema then has one output, and :data:`REST` receives
    events without a schema. ``unknown_xa_schemas`` are the encoded names of the schemas that receive XA COMMIT and XA
    ROLLBACK of transactions prepared before the binlog set.

    An owner number stands for the combination of outputs that receive an event. It is an index into ``combinations``.
    """

    def __init__(
        self,
        subjects: Subjects,
        filters: Sequence[tuple[str, ReplicationFilter]] | None = None,
        rest: str | None = None,
        unknown_xa_schemas: Iterable[str] = (),
    ) -> None:
        self._subjects = subjects
        self._filters = None if filters is None else [one for _, one in filters]
        self._unknown_xa_schemas = tuple(unknown_xa_schemas)
        self._of: list[int] = []
        self.names = [REST] if filters is None else [name for name, _ in filters]
        self._rest: list[int] = []
        if filters is None:
            self._rest = [0]
        elif rest is not None:
            self._rest = [len(filters)]
            self.names.append(rest)
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self.combinations: list[tuple[int, ...]] = []
        """The distinct combinations of outputs that receive an event together, as tuples of indexes into ``names``.

        For example, a statement that changes tables of two schemas goes to both schemas' outputs. The first
        combination is empty (:data:`NO_OUTPUT`).
        """
        self._codes: dict[tuple[int, ...], int] = {}
        self.code(())
        # A slave whose filter has no rules receives every transaction, even an empty transaction.
        without_rules = [k for k, one in enumerate(self._filters or ()) if not one.is_on]
        self.default = self.code(without_rules or self._rest)
        """The owner number of a transaction without any owned event, for example an empty transaction."""

    def outputs_of(self, subject: Subject) -> Sequence[int]:
        """Return the outputs (binlog sets that the split writes) that receive the rows events of a table, or the event
        of a statement, as indexes into ``names``.
        """
        if self._filters is None:
            return self._of_schemas(encoded_schemas(subject))
        return [k for k, one in enumerate(self._filters) if one.verdict(subject).passes] or self._rest

    def _of_schemas(self, names: Iterable[str]) -> Sequence[int]:
        numbers = []
        for name in names:
            if name not in self._numbers:
                self._numbers[name] = len(self.names)
                self.names.append(name)
            numbers.append(self._numbers[name])
        return numbers or self._rest

    @property
    def undecided(self) -> int:
        """The owner number (a number for a combination of outputs) of events about which no filter can decide.

        These are incidents, events of unknown types, and rows events without a table map. In a split by filters all
        output binlogs receive them. In a split by schema the output for events without a schema does.
        """
        return self.code(self._rest if self._filters is None else range(len(self.names)))

    @property
    def unknown_xa_ends(self) -> int:
        """The owner number (a number for a combination of outputs) of an XA COMMIT or XA ROLLBACK whose transaction was
        prepared before the binlog set.

        The set does not show which tables such a transaction changed. Every output that may have received a part of the
        transaction must therefore receive its end.
        """
        if self._filters is None:
            return self.code(self._of_schemas(self._unknown_xa_schemas))
        return self.undecided

    def code(self, outputs: Iterable[int]) -> int:
        """Return the owner number, which stands for the combination of ``outputs`` (indexes of binlogs in ``names``)
        that receive an event.

        A combination that is new gets the next free number.
        """
        key = tuple(sorted(set(outputs)))
        found = self._codes.setdefault(key, len(self.combinations))
        if found == len(self.combinations):
            self.combinations.append(key)
        return found

    def sent(self) -> npt.NDArray[np.uint32]:
        """Return a uint32 array that tells for each output binlog (row) and owner number (column) whether the output
        receives an event with this owner number.

        An owner number stands for a combination of outputs. A value is FILTER_BINLOG_SEND_F or 0, as in a filter's
        verdicts. The last row is for an output that receives nothing.
        """
        found = np.zeros((len(self.names) + 1, len(self.combinations)), np.uint32)
        for number, outputs in enumerate(self.combinations):
            found[outputs, number] = FILTER_BINLOG_SEND_F
        return found

    def array(self) -> npt.NDArray[np.int32]:
        """Return the owner number of each subject (table or statement) seen so far, as int32, indexed by the subject's
        number.

        An owner number stands for the combination of outputs that receive an event. The last entry is NO_OUTPUT, for
        events without a subject (-1).
        """
        for number in range(len(self._of), len(self._subjects)):
            members = self._subjects.members(number)
            if members is None:
                outputs: Iterable[int] = self.outputs_of(self._subjects[number])
            else:
                # XA COMMIT or ROLLBACK goes to every output that received part of the prepared transaction.
                outputs = (k for member in members for k in self.combinations[self._of[member]])
            self._of.append(self.code(outputs))
        return np.array([*self._of, NO_OUTPUT], np.int32)


def encoded_schemas(subject: Subject) -> tuple[str, ...]:
    """Return the schemas to which a table or statement belongs, as names encoded for file names, sorted and distinct. A
    split by schema writes the events to the binlogs of these schemas.
    """
    return tuple(sorted({encode_name(name) for name in subject.schemas()}))


def schemas_among(subjects: Iterable[Subject]) -> tuple[str, ...]:
    """Return the schemas to which any of ``subjects`` (tables and statements) belongs, as names encoded for file names,
    sorted and distinct.
    """
    return tuple(sorted({name for one in subjects for name in encoded_schemas(one)}))


_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,199}")


class NamedBinlog(Model):
    """An entry of a specification file: the name of a binlog to write, and the replication filter that chooses its
    events."""

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
    """The binlogs that a split writes. Without ``binlogs`` it writes one binlog for each schema."""

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
        """The names of the binlogs that the split writes even if they receive no event."""
        return tuple(one.name for one in self.binlogs) + ((self.rest,) if self.rest is not None else ())

    def filters(self, names: NameRules) -> list[tuple[str, ReplicationFilter]]:
        """Return the name and the replication filter of each binlog that the split writes.

        ``names`` has the rules by which the source's server compares names, except that the specification's
        ``lower_case_table_names`` replaces the server's. Raises OptionError that names the binlog, for a bad rule.
        """
        return [(one.name, self._filter(one, names)) for one in self.binlogs]

    def _filter(self, one: NamedBinlog, names: NameRules) -> ReplicationFilter:
        try:
            return make_filter(
                one.semantics,
                [parse_option(rule, one.semantics) for rule in one.rules],
                names=names._replace(lower_case_table_names=self.lower_case_table_names),
            )
        except OptionError as error:
            raise OptionError(f"binlog {one.name!r}: rules: {error}") from None

    def owners(
        self,
        subjects: Subjects,
        names: NameRules,
        unknown_xa_schemas: tuple[str, ...] = (),
    ) -> Owners:
        """Return an object that finds for each table and statement the binlogs of the split that receive its events.

        Parameters:
            subjects: the register that numbers tables and statements.
            names: the rules by which the server that wrote the source compares schema and table names.
            unknown_xa_schemas: in a split by schema, the schemas whose binlogs receive each XA COMMIT and XA ROLLBACK
                whose transaction was prepared before the source.
        """
        return Owners(
            subjects, None if self.by_schema else self.filters(names), self.rest, unknown_xa_schemas
        )


BY_SCHEMA = Specification()
"""The specification of a split that writes one binlog for each schema."""


def load_specification(path: Path) -> Specification:
    """Read and check a specification file (TOML), which defines the binlogs that a split writes by names and filter
    rules.

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
