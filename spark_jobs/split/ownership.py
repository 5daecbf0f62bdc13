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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import Model, load_toml
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


NO_OUTPUT = 0
"""The owner number that stands for no output. GTID, BEGIN and context events (such as Intvar) have it, because they
follow their transaction or statement.
"""


class Owners:
    """The outputs that receive the events of each table and statement. An output is a binlog set that a split writes.

    An owner number stands for the combination of outputs that receive an event. It is an index into ``combinations``.

    Parameters:
        subjects: the register that numbers tables and statements.
        outputs_of: returns the names of the outputs that receive the rows events of a table, or the event of a
            statement.
        default: the names of the outputs that receive a transaction without any owned event, such as an empty one.
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
                code = self._code_of(self._outputs_of(self._subjects[number]))
            else:
                # XA COMMIT or ROLLBACK goes to every output that received part of the prepared transaction.
                code = self.code(k for member in members for k in self.combinations[self._of[member]])
            self._of.append(code)
        return np.array([*self._of, NO_OUTPUT], np.int32)


def encoded_schemas(subject: Subject) -> tuple[str, ...]:
    """Return the schemas to which a table or statement belongs, as names encoded for file names, sorted and distinct. A
    split by schema writes the events to the binlogs of these schemas.
    """
    return tuple(sorted({encode_name(name) for name in subject.schemas()}))


def _schemas_or_rest(subject: Subject) -> Sequence[str]:
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
            return Owners(subjects, _schemas_or_rest, [REST], [REST], unknown_xa_schemas or [REST])
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
