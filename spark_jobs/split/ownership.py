"""Owners: for each table and each statement of a binlog, the outputs of the split that receive its events.

An output is a binlog that the split writes. A subject is a table or a statement that a filter decides about. Each
binlog set numbers its subjects from 0.

The module also has the specification of a split, which says into which binlogs the events of a binlog set go. A split
writes one binlog for each schema, or the binlogs that a specification file names. A binlog of a specification has a
replication filter, and receives the events that a slave with this filter would receive. The idea comes from MySQL's
worklog 2387, "Binlog extensions". The name of a schema becomes the name of a file as servers encode it
(``tablename_to_filename``).
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
"""The name of the output for events that belong to no schema. No schema's output has this name, since in an encoded
schema name four hexadecimal digits follow every single ``@``."""

MAX_LENGTH = 200
"""The limit of the length of an encoded schema name, characters. File systems allow file names of 255 bytes, and a
suffix such as ``-bin.000001.tmp`` follows the schema name.
"""

_SAFE = re.compile("[^0-9A-Za-z_]")
_ESCAPE = re.compile("@([0-9a-f]{4})")


def encode_name(name: str) -> str:
    """Return a schema's name as a file name. ``@`` and four hexadecimal digits replace each character that is not in
    ``[0-9A-Za-z_]``.

    The servers also have a shorter form for some 1500 letters (``é`` is ``@0n`` as well as ``@00e9``). This function
    always writes the long form, so that no schema gets the name :data:`REST`. A character above U+FFFF becomes two
    UTF-16 units; the servers do not allow such a character. A byte that is not UTF-8 is encoded by its surrogate
    (surrogateescape). A result longer than :data:`MAX_LENGTH` is cut and gets ``@@`` and a digest, and
    :func:`decode_name` cannot decode it.

    >>> encode_name("db,3"), encode_name("a_b")
    ('db@002c3', 'a_b')
    """
    encoded = _SAFE.sub(lambda m: "".join(f"@{unit:04x}" for unit in _utf16(m[0])), name)
    if len(encoded) > MAX_LENGTH:
        digest = hashlib.sha256(encoded.encode("ascii")).hexdigest()[:16]
        encoded = f"{encoded[: MAX_LENGTH - 18].rpartition('@')[0] or encoded[: MAX_LENGTH - 18]}@@{digest}"
    return encoded


def decode_name(encoded: str) -> str:
    """Return the schema name that :func:`encode_name` made into this file name.

    A file name that ``encode_name`` cut to the largest length cannot be decoded; it is returned unchanged.

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
"""The owner number (the number that says which outputs receive an event) for no output. GTID, BEGIN and context events
(such as Intvar) have this number, since they go wherever their transaction or statement goes."""


class Owners:
    """The outputs (the binlogs that the split writes) that receive the events of each table and each statement.

    In a split by filters, each of ``filters`` has one output. It receives the events that the master would send to a
    slave with the filter. With ``rest`` there is one more output of that name, which receives the events that every
    filter drops. In a split by schema, ``filters`` are None. Each schema has one output, and events without a schema go
    to the output :data:`REST`. ``unknown_xa_schemas`` are the encoded names of the schemas that receive every XA COMMIT
    and XA ROLLBACK of a transaction that was prepared before the binlog set.

    An owner number says which outputs receive an event. The number is an index into ``combinations``.
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
        self._of: npt.NDArray[np.int32] = np.zeros(64, np.int32)
        self._n_owned = 0
        self.names = [REST] if filters is None else [name for name, _ in filters]
        self._rest: list[int] = []
        if filters is None:
            self._rest = [0]
        elif rest is not None:
            self._rest = [len(filters)]
            self.names.append(rest)
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self.combinations: list[tuple[int, ...]] = []
        """The combinations of outputs that receive the same events, each once, as indexes into ``names``.

        For example, a statement that changes tables of two schemas goes to the outputs of both. The first combination
        is that of no output (:data:`NO_OUTPUT`).
        """
        self._codes: dict[tuple[int, ...], int] = {}
        self._sent: npt.NDArray[np.uint32] = np.zeros((0, 0), np.uint32)
        self._n_sent = 0
        self.code(())
        # A slave whose filter has no rules receives every transaction, even an empty transaction.
        without_rules = [k for k, one in enumerate(self._filters or ()) if not one.is_on]
        self.default = self.code(without_rules or self._rest)
        """The owner number of a transaction in which no event belongs to any output, for example an empty
        transaction."""

    def outputs_of(self, subject: Subject) -> Sequence[int]:
        """Return the numbers of the outputs that receive a table's rows events, or a statement's event."""
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
        """The owner number for events that no filter can decide.

        Such events are incidents, events of unknown types, and rows events without a table map. In a split by filters
        every output receives them, and in a split by schema the output for events without a schema.
        """
        return self.code(self._rest if self._filters is None else range(len(self.names)))

    @property
    def unknown_xa_ends(self) -> int:
        """The owner number for the XA COMMIT or XA ROLLBACK of a transaction that was prepared before the binlog set
        begins.

        The set does not show which tables such a transaction changed, so no output can be left out for certain.
        """
        if self._filters is None:
            return self.code(self._of_schemas(self._unknown_xa_schemas))
        return self.undecided

    def code(self, outputs: Iterable[int]) -> int:
        """Return the owner number that stands for these outputs together. ``outputs`` are the outputs' numbers.

        A combination of outputs gets a new owner number when it is seen for the first time.
        """
        key = tuple(sorted(set(outputs)))
        found = self._codes.setdefault(key, len(self.combinations))
        if found == len(self.combinations):
            self.combinations.append(key)
        return found

    def sent(self) -> npt.NDArray[np.uint32]:
        """Return for each output (a row) and each owner number (a column) whether the output receives the events.

        The values are those of a filter's verdicts. The last row is that of an output that receives no event.
        """
        n_outputs, n = len(self.names) + 1, len(self.combinations)
        if n_outputs > len(self._sent) or n > self._sent.shape[1]:
            self._sent, self._n_sent = np.zeros((2 * n_outputs, 2 * n), np.uint32), 0
        for number in range(self._n_sent, n):
            self._sent[self.combinations[number], number] = FILTER_BINLOG_SEND_F
        self._n_sent = n
        return self._sent[:n_outputs]

    def array(self) -> npt.NDArray[np.int32]:
        """Return the owner number of every subject seen so far, int32, by the subject's number.

        The owner number says which outputs receive the events of the subject (a table or a statement).
        """
        wanted = len(self._subjects)
        if wanted > self._of.size:
            larger = np.zeros(max(wanted, 2 * self._of.size), np.int32)
            larger[: self._n_owned] = self._of[: self._n_owned]
            self._of = larger
        for number in range(self._n_owned, wanted):
            members = self._subjects.members(number)
            if members is None:
                self._of[number] = self.code(self.outputs_of(self._subjects[number]))
            else:
                # XA COMMIT or ROLLBACK goes to every output that received part of the prepared transaction.
                self._of[number] = self.code(
                    k for member in members for k in self.combinations[self._of[member]]
                )
        self._n_owned = wanted
        return self._of


def encoded_schemas(subject: Subject) -> tuple[str, ...]:
    """Return the schemas that receive the events of a table or statement, as file names, sorted, without repetition."""
    return tuple(sorted({encode_name(name) for name in subject.schemas()}))


def schemas_among(subjects: Iterable[Subject]) -> tuple[str, ...]:
    """Return the schemas that receive events of any of these tables and statements, as file names, sorted."""
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
    """The binlogs that a split writes. Without ``binlogs`` the split writes one binlog for each schema."""

    binlogs: tuple[NamedBinlog, ...] = ()
    rest: str | None = None
    """The name of the binlog for events that go into no other binlog. None: such events are dropped."""
    lower_case_table_names: int = 0

    @property
    def by_schema(self) -> bool:
        """True if the split writes one binlog for each schema, instead of the binlogs that a file names."""
        return not self.binlogs

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the binlogs that the split writes even if no event belongs to them."""
        return tuple(one.name for one in self.binlogs) + ((self.rest,) if self.rest is not None else ())

    def filters(self, names: NameRules) -> list[tuple[str, ReplicationFilter]]:
        """Return the name of each binlog with its replication filter.

        ``names`` says how the server compares names, such as by upper and lower case. The specification's own
        ``lower_case_table_names`` replaces the setting in ``names``. Raises OptionError, whose text names the binlog,
        for a wrong rule.
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
        """Return an object that finds for each subject (a table or a statement) the binlogs that receive its events.

        ``unknown_xa_schemas`` are used in a split by schema. They name the schemas that receive XA COMMIT and
        XA ROLLBACK of transactions that were prepared before the binlog set begins.
        """
        return Owners(
            subjects, None if self.by_schema else self.filters(names), self.rest, unknown_xa_schemas
        )


BY_SCHEMA = Specification()
"""The specification of a split that writes one binlog for each schema."""


def load_specification(path: Path) -> Specification:
    """Read a specification file (TOML; docs/split.md describes the keys) and check its names and filter rules.

    Raises OptionError with the file and the wrong key, name or rule.
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
