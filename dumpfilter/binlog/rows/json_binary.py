"""The decoder of MySQL's binary JSON, and of the changes to JSON values in partial updates, with the computation of the
new document.

A value is decoded to the text that MySQL itself shows for it. Sources: ``sql-common/json_binary.h``,
``sql-common/json_dom.cc`` (``Json_wrapper::to_string``) and ``sql-common/json_diff.cc`` (``apply_json_diffs``) of
MySQL.
"""

from __future__ import annotations

import enum
import json
import math
import re
import struct
from base64 import b64encode
from collections.abc import Iterator
from decimal import Decimal
from itertools import groupby
from typing import NamedTuple, TypeAlias

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.base.printable import printable
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.cursor import Cursor
from dumpfilter.binlog.row_image import decimal_text

_PLAIN_DIGITS = 15
"""The limit of digits before the point, and of zeros after it, up to which a number is written without an exponent
(``MAX_DECPT_FOR_F_FORMAT``).
"""

MOST_DEPTH = 100
"""The maximum nesting depth of a JSON value (``JSON_DOCUMENT_MAX_DEPTH``)."""

_SMALL_OBJECT, _LARGE_OBJECT, _SMALL_ARRAY, _LARGE_ARRAY, _LITERAL = range(5)
_INT16, _UINT16, _INT32, _UINT32, _INT64, _UINT64, _DOUBLE, _STRING = range(5, 13)
_OPAQUE = 15

_NUMBERS = {
    _INT16: struct.Struct("<h"),
    _UINT16: struct.Struct("<H"),
    _INT32: struct.Struct("<i"),
    _UINT32: struct.Struct("<I"),
    _INT64: struct.Struct("<q"),
    _UINT64: struct.Struct("<Q"),
}
_REAL = struct.Struct("<d")
_LITERALS = ("null", "true", "false")
_SMALL = frozenset({_LITERAL, _INT16, _UINT16})
_INLINED = {False: _SMALL, True: _SMALL | {_INT32, _UINT32}}
"""The types of values that are stored in the entries of an object or array, instead of at an offset. The keys are
False for a small container, and True for a large one.
"""


class JsonKind(enum.Enum):
    """The groups of JSON values: strings, other scalars, and containers (arrays and objects). ``mysqlbinlog -v`` writes
    each group differently in SQL.
    """

    STRING = enum.auto()
    """Strings, dates, times and binary values. The ``text`` of such a value has no quotes."""
    SCALAR = enum.auto()
    CONTAINER = enum.auto()


class JsonValue(NamedTuple):
    """A JSON value decoded to text, with its group (string, other scalar, or container)."""

    kind: JsonKind
    text: str
    """The text of the value: a string without quotes, or the JSON text of any other value."""

    @property
    def json(self) -> str:
        """The value as JSON text; a string gets quotes and escapes."""
        return quoted(self.text) if self.kind == JsonKind.STRING else self.text


JsonNode: TypeAlias = "JsonValue | list[JsonNode] | dict[str, JsonNode]"
"""A JSON value as a tree. A list is an array, a dict is an object with its members in MySQL's order, and a JsonValue
is a scalar.
"""


def json_text(node: JsonNode) -> str:
    """Return the JSON text of the tree ``node``, with MySQL's spacing. In the tree, a list is an array, a dict is an
    object, and a JsonValue is a scalar.
    """
    if isinstance(node, dict):
        return f"{{{', '.join([f'{quoted(key)}: {json_text(value)}' for key, value in node.items()])}}}"
    return f"[{', '.join(map(json_text, node))}]" if isinstance(node, list) else node.json


def quoted(text: str) -> str:
    r"""Return a string as JSON text, with MySQL's escapes.

    >>> print(quoted('a"b\n\x01'))
    "a\"b\n\u0001"
    """
    return json.dumps(text, ensure_ascii=False)


def plain_number(text: str) -> str:
    """Return a number in the form that MySQL's ``my_gcvt`` chooses, without needless zeros.

    ``text`` is the number in decimal or scientific form, as Python and numpy print it.

    >>> plain_number("1e+06"), plain_number("1.5"), plain_number("1e-05"), plain_number("1e22"), plain_number("-0.0")
    ('1000000', '1.5', '0.00001', '1e22', '-0')
    """
    number = Decimal(text).normalize()
    sign, digits, exponent = number.as_tuple()
    point = len(digits) + int(exponent)
    if number and (point < 1 - _PLAIN_DIGITS or (point > _PLAIN_DIGITS and int(exponent) >= 0)):
        tail = "".join(map(str, digits[1:]))
        return f"{'-' * sign}{digits[0]}{'.' * bool(tail)}{tail}e{point - 1}"
    return f"{number:f}"


def real_text(value: float) -> str:
    """Return a double as MySQL shows it in JSON: the fewest digits that read back as the same number. Raises
    BinlogCorrupt for infinity and NaN.

    >>> real_text(1.0), real_text(1e15), real_text(1e-7), real_text(-1.5e-20), real_text(1e10)
    ('1.0', '1e15', '0.0000001', '-1.5e-20', '10000000000.0')
    """
    if not math.isfinite(value):
        raise BinlogCorrupt("a JSON value has a number that is not finite")
    text = plain_number(repr(value))
    return text if "." in text or "e" in text else f"{text}.0"


def json_value(data: bytes) -> JsonValue:
    """Decode a binary JSON value to its text. Raises BinlogCorrupt for data that are no JSON value."""
    return _value(json_tree(data))


def _value(node: JsonNode) -> JsonValue:
    return node if isinstance(node, JsonValue) else JsonValue(JsonKind.CONTAINER, json_text(node))


def json_tree(data: bytes) -> JsonNode:
    """Decode a binary JSON value to a tree. In the tree, a list is an array, a dict is an object, and a JsonValue is a
    scalar. Empty data are the JSON value null, as on the server.

    Raises BinlogCorrupt for data that are no JSON value.
    """
    if not data:
        return JsonValue(JsonKind.SCALAR, "null")
    try:
        return _Reader(data).node(data[0], 1, 0)
    except (struct.error, IndexError):
        raise BinlogCorrupt("a JSON value ends too early") from None


class _Reader:
    """A decoder of one binary JSON value to a tree of lists, dicts and scalars (:data:`JsonNode`)."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = len(data)
        """The number of bytes that further values may occupy.

        No two values share bytes. Without this limit, malformed offsets could make a text of any length.
        """

    def node(self, kind: int, at: int, depth: int) -> JsonNode:
        """Decode the value of the type ``kind`` (the format's type code) whose content is at offset ``at`` of the data.

        ``depth`` is the number of containers around the value. Raises BinlogCorrupt for malformed data, and
        struct.error or IndexError for data that end too early.
        """
        self._use(1)
        if kind <= _LARGE_ARRAY:
            return self._container(kind, at, depth + 1)
        if kind == _LITERAL:
            if self._data[at] >= len(_LITERALS):
                raise BinlogCorrupt(f"a JSON value has the unknown literal {self._data[at]}")
            return JsonValue(JsonKind.SCALAR, _LITERALS[self._data[at]])
        number = _NUMBERS.get(kind)
        if number is not None:
            return JsonValue(JsonKind.SCALAR, str(number.unpack_from(self._data, at)[0]))
        if kind == _DOUBLE:
            return JsonValue(JsonKind.SCALAR, real_text(_REAL.unpack_from(self._data, at)[0]))
        if kind == _STRING:
            return JsonValue(JsonKind.STRING, _text(self._sized(at)))
        if kind == _OPAQUE:
            return _opaque(self._data[at], self._sized(at + 1))
        raise BinlogCorrupt(f"a JSON value has the unknown type {kind}")

    def _use(self, amount: int) -> None:
        self._left -= amount
        if self._left < 0:
            raise BinlogCorrupt("a JSON value refers to the same bytes more than once")

    def _slice(self, at: int, length: int) -> bytes:
        if at + length > len(self._data):
            raise BinlogCorrupt("a JSON value ends too early")
        self._use(length)
        return self._data[at : at + length]

    def _sized(self, at: int) -> bytes:
        # The length has 7 bits in each byte, the lowest first. The highest bit says that another byte follows.
        length = 0
        for k in range(5):
            byte = self._data[at + k]
            length |= (byte & 0x7F) << 7 * k
            if not byte & 0x80:
                return self._slice(at + k + 1, length)
        raise BinlogCorrupt("a JSON value has a length of more than 5 bytes")

    def _container(self, kind: int, base: int, depth: int) -> JsonNode:
        if depth > MOST_DEPTH:
            raise BinlogCorrupt(f"a JSON value is nested more than {MOST_DEPTH} times")
        large = kind in (_LARGE_OBJECT, _LARGE_ARRAY)
        is_object = kind in (_SMALL_OBJECT, _LARGE_OBJECT)
        number = _NUMBERS[_UINT32 if large else _UINT16]
        width = number.size
        (count,) = number.unpack_from(self._data, base)
        keys = base + 2 * width
        entries = keys + count * (width + 2 if is_object else 0)
        if entries + count * (1 + width) > len(self._data):
            raise BinlogCorrupt(f"a JSON value has {count} elements, more than it has bytes")
        elements: list[JsonNode] = []
        names = []
        for k in range(count):
            at = entries + k * (1 + width)
            kind = self._data[at]
            place = at + 1 if kind in _INLINED[large] else base + number.unpack_from(self._data, at + 1)[0]
            elements.append(self.node(kind, place, depth))
            if is_object:
                entry = keys + k * (width + 2)
                (offset,) = number.unpack_from(self._data, entry)
                (length,) = _NUMBERS[_UINT16].unpack_from(self._data, entry + width)
                names.append(_text(self._slice(base + offset, length)))
        return dict(zip(names, elements, strict=True)) if is_object else elements


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _opaque(kind: int, data: bytes) -> JsonValue:
    if kind == T.NEWDECIMAL:
        if len(data) < 2:
            raise BinlogCorrupt("a JSON value has a DECIMAL without its precision")
        return JsonValue(JsonKind.SCALAR, decimal_text(data[2:], data[0], data[1]))
    if kind in (T.DATE, T.TIME, T.DATETIME, T.TIMESTAMP):
        if len(data) != 8:
            raise BinlogCorrupt(f"a JSON value has a time of {len(data)} bytes")
        return JsonValue(JsonKind.STRING, _packed_time(kind, int.from_bytes(data, "little", signed=True)))
    return JsonValue(JsonKind.STRING, f"base64:type{kind}:{b64encode(data).decode()}")


def _packed_time(kind: int, packed: int) -> str:
    sign = "-" if packed < 0 else ""
    whole, micro = divmod(abs(packed), 1 << 24)
    hour, minute, second = whole >> 12 & (0x3FF if kind == T.TIME else 0x1F), whole >> 6 & 63, whole & 63
    clock = f"{hour:02}:{minute:02}:{second:02}.{micro:06}"
    if kind == T.TIME:
        return sign + clock
    days = whole >> 17
    date = f"{(days >> 5) // 13:04}-{(days >> 5) % 13:02}-{days & 31:02}"
    return date if kind == T.DATE else f"{date} {clock}"


class JsonOperation(enum.IntEnum):
    """The operations by which a partial update changes an element of a JSON value: replace, insert and remove
    (``enum_json_diff_operation``).
    """

    REPLACE = 0
    INSERT = 1
    REMOVE = 2


class JsonChange(NamedTuple):
    """One change to a JSON column's value in a partial update (``binlog_row_value_options=PARTIAL_JSON``): the
    operation (replace, insert or remove), the path of the changed element, and its new value.
    """

    operation: JsonOperation
    path: str
    """The JSON path of the changed element, such as ``$.a[1]``."""
    value: JsonNode | None
    """The new value of the element; None for REMOVE."""

    @property
    def function(self) -> str:
        """The name of MySQL's function that makes the same change, such as ``JSON_REPLACE``."""
        if self.operation == JsonOperation.INSERT and self.path.endswith("]"):
            return "JSON_ARRAY_INSERT"
        return f"JSON_{self.operation.name}"


def json_changes(data: bytes) -> Iterator[JsonChange]:
    """Yield the changes to a JSON column's value in a partial update (``binlog_row_value_options=PARTIAL_JSON``).
    Raises BinlogCorrupt for malformed data.
    """
    reader = Cursor(data, "Partial_update_rows")
    while reader.left:
        number = reader.integer(1, "the operation on a JSON value")
        if number not in JsonOperation._value2member_map_:
            raise BinlogCorrupt(f"a partial update has the unknown operation {number} on a JSON value")
        operation = JsonOperation(number)
        path = _text(reader.sized("a JSON path"))
        value = None
        if operation != JsonOperation.REMOVE:
            value = json_tree(reader.sized("a JSON value"))
        yield JsonChange(operation, path, value)


def changes_expression(column: str, changes: list[JsonChange], line: str = " ") -> str:
    r"""Return an SQL expression that applies ``changes`` to ``column``, as ``mysqlbinlog -v`` prints it.

    ``changes`` is the list of changes in a partial update (:func:`json_changes`). With an empty list the result is
    ``column``. ``line`` is the text between the lines of the expression.

    >>> one = JsonChange(JsonOperation.REPLACE, "$.a", JsonValue(JsonKind.SCALAR, "2"))
    >>> changes_expression("@2", [one, JsonChange(JsonOperation.REMOVE, "$.b", None)])
    "JSON_REMOVE( JSON_REPLACE(@2, '$.a', 2), '$.b')"
    """
    if not changes:
        return column
    groups = [(function, [*group]) for function, group in groupby(changes, lambda change: change.function)]
    heads = line.join(f"{function}(" for function, _ in reversed(groups))
    arguments = f"),{line}".join(f",{line}".join(map(_arguments, group)) for _, group in groups)
    return f"{heads}{column}, {arguments})"


def _arguments(change: JsonChange) -> str:
    path = sql_quoted(change.path)
    return path if change.value is None else f"{path}, {_sql(_value(change.value))}"


def _sql(value: JsonValue) -> str:
    if value.kind == JsonKind.CONTAINER:
        return f"CAST({sql_quoted(value.text)} AS JSON)"
    return sql_quoted(value.text) if value.kind == JsonKind.STRING else value.text


_SQL_ESCAPED = str.maketrans(
    {chr(code): f"\\x{code:02x}" for code in range(32)}
    | {"'": "\\'", "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)


def sql_quoted(text: str) -> str:
    r"""Return a text in single quotes, with the escapes of ``mysqlbinlog -v``.

    >>> print(sql_quoted("it's\n"))
    'it\'s\n'
    """
    return f"'{text.translate(_SQL_ESCAPED)}'"


_LEG = re.compile(r'\.(?:"((?:[^"\\]|\\.)*)"|([^.\[\]"]+))|\[(\d+)\]', re.S)
"""The pattern of one leg (step) of a JSON path: ``.member`` with or without quotes, or ``[index]``."""

Leg = str | int
"""One leg (step) of a JSON path: the name of a member, or the index of an array's element."""


def changed_document(document: bytes, changes: bytes) -> str:
    """Return the JSON text of a document after the changes of a partial update.

    ``document`` is the binary JSON value before the update. ``changes`` has the changes as the row image stores them.
    Raises BinlogCorrupt for malformed data, and for a change to an element that the document lacks.
    """
    root = json_tree(document)
    for change in json_changes(changes):
        root = _changed(root, change)
    return json_text(root)


def path_legs(path: str) -> list[Leg]:
    r"""Return the legs (steps) of a JSON path that the server wrote to the binlog. Raises BinlogCorrupt for a text that
    is no such path, and for more than 100 legs.

    >>> path_legs('$.a[2]."x y"'), path_legs("$")
    (['a', 2, 'x y'], [])
    """
    legs: list[Leg] = []
    at = 1
    while at < len(path) and path[0] == "$":
        leg = _LEG.match(path, at)
        if leg is None:
            break
        in_quotes, name, number = leg.groups()
        try:
            legs.append(
                json.loads(f'"{in_quotes}"', strict=False) if in_quotes is not None else name or int(number)
            )
        except ValueError:
            break
        at = leg.end()
    # Each change may nest its value deeper by its path, so that the length of paths limits the depth of the document.
    if path[:1] != "$" or at != len(path) or len(legs) > MOST_DEPTH:
        raise BinlogCorrupt(f"a partial update has {printable(path)!r} instead of a JSON path")
    return legs


def _changed(root: JsonNode, change: JsonChange) -> JsonNode:
    # The root is the only element of a list, so that its replacement is no special case.
    whole: list[JsonNode] = [root]
    *above, last = [0, *path_legs(change.path)]
    if not above and change.operation != JsonOperation.REPLACE:
        raise _misfit(change)
    parent: JsonNode = whole
    for leg in above:
        parent = _element(parent, leg, change)
    if change.operation != JsonOperation.INSERT or change.value is None:
        _element(parent, last, change)
        assert not isinstance(parent, JsonValue)
        if change.value is None:
            del parent[last]  # type: ignore[arg-type]
        else:
            parent[last] = change.value  # type: ignore[index]
    elif isinstance(parent, list) and isinstance(last, int):
        parent.insert(last, change.value)
    elif isinstance(parent, dict) and isinstance(last, str) and last not in parent:
        members = sorted([*parent.items(), (last, change.value)], key=lambda member: _order(member[0]))
        parent.clear()
        parent.update(members)
    else:
        raise _misfit(change)
    return whole[0]


def _element(parent: JsonNode, leg: Leg, change: JsonChange) -> JsonNode:
    if isinstance(parent, dict) and isinstance(leg, str) and leg in parent:
        return parent[leg]
    if isinstance(parent, list) and isinstance(leg, int) and leg < len(parent):
        return parent[leg]
    raise _misfit(change)


def _order(name: str) -> tuple[int, bytes]:
    """Return the key by which MySQL sorts the members of an object: short names before long ones
    (``Json_key_comparator``).
    """
    raw = name.encode("utf-8", "surrogatepass")
    return len(raw), raw


def _misfit(change: JsonChange) -> BinlogCorrupt:
    return BinlogCorrupt(
        f"a partial update makes a {change.function} at {printable(change.path)}, "
        "which does not fit the JSON document before the update"
    )
