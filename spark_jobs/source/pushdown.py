"""Filter pushdown: conditions of a query's WHERE clause that the data source ``binlog`` evaluates instead of Spark.

Spark passes the conditions as filter objects. Each becomes a predicate on one column, with SQL's three-valued logic.
Predicates on the columns ``file`` and ``position`` can also exclude files and ranges before a task reads them.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as D

from dumpfilter.spark_jobs.source.columns import ROW_TYPES, TYPES

_COMPARISONS: dict[type[D.Filter], Callable[..., pa.Array]] = {
    D.EqualTo: pc.equal,
    D.GreaterThan: pc.greater,
    D.GreaterThanOrEqual: pc.greater_equal,
    D.LessThan: pc.less,
    D.LessThanOrEqual: pc.less_equal,
}
_TEXTS: dict[type[D.Filter], Callable[..., pa.Array]] = {
    D.StringStartsWith: pc.starts_with,
    D.StringEndsWith: pc.ends_with,
    D.StringContains: pc.match_substring,
}
_PYTHON_TYPES: dict[pa.DataType, type] = {
    pa.string(): str,
    pa.int64(): int,
    pa.int32(): int,
    pa.bool_(): bool,
    TYPES["timestamp"]: datetime.datetime,
}
_COSTLY = ("gtid", "database", "table", "statement_kind", "rows", "sql")


@dataclass(frozen=True)
class Predicate:
    """A condition of a query's WHERE clause on one column of the data source."""

    column: str
    filter: D.Filter

    def __call__(self, values: pa.Array) -> pa.Array:
        """Return whether the condition holds for each of ``values``: true, false, or null for unknown, as in SQL."""
        return _evaluate(self.filter, values)


def predicate_of(filter: D.Filter, types: Mapping[str, pa.DataType] = TYPES) -> Predicate | None:
    """Return a Spark filter (a condition of a WHERE clause) as a predicate that the data source evaluates. ``types``
    has the types of the query's columns by name.

    Return None if the data source cannot evaluate the condition exactly as Spark would. Spark must then evaluate it.
    That includes conditions on the columns of changed rows, of which an event may have several.
    """
    inner = filter.child if isinstance(filter, D.Not) else filter
    path = getattr(inner, "attribute", None)
    if path is None or len(path) != 1 or path[0] not in types or path[0] in ROW_TYPES:
        return None
    column = path[0]
    if type(inner) in (D.IsNull, D.IsNotNull):
        return Predicate(column, filter)
    value = getattr(inner, "value", None)
    if type(inner) is D.In:
        comparable = all(_fits(one, types[column]) for one in value or ())
    elif type(inner) in _TEXTS:
        comparable = isinstance(value, str) and types[column] == pa.string()
    elif type(inner) in _COMPARISONS or type(inner) is D.EqualNullSafe:
        comparable = _fits(value, types[column])
    else:
        comparable = False
    return Predicate(column, filter) if comparable else None


def _fits(value: Any, column: pa.DataType) -> bool:
    if value is None:
        return True
    if column == TYPES["timestamp"]:
        return isinstance(value, datetime.datetime) and value.tzinfo is not None
    if isinstance(value, bool) and column != pa.bool_():
        return False
    return isinstance(value, _PYTHON_TYPES[column])


def _scalar(value: Any, values: pa.Array) -> pa.Scalar:
    # A query may compare a 32-bit column with a number that needs 64 bits, so every integer becomes a 64-bit number.
    kind = pa.int64() if pa.types.is_integer(values.type) else values.type
    return pa.scalar(value, kind)


def _evaluate(filter: D.Filter, values: pa.Array) -> pa.Array:
    if isinstance(filter, D.Not):
        return pc.invert(_evaluate(filter.child, values))
    if isinstance(filter, D.IsNull):
        return pc.is_null(values)
    if isinstance(filter, D.IsNotNull):
        return pc.is_valid(values)
    if isinstance(filter, D.In):
        return _among(filter.value, values)
    if isinstance(filter, D.EqualNullSafe):
        if filter.value is None:
            return pc.is_null(values)
        return pc.fill_null(pc.equal(values, _scalar(filter.value, values)), False)
    if type(filter) in _TEXTS:
        return _TEXTS[type(filter)](values, filter.value)  # type: ignore[attr-defined]
    return _COMPARISONS[type(filter)](values, _scalar(filter.value, values))  # type: ignore[attr-defined]


def _among(wanted: Sequence[Any], values: pa.Array) -> pa.Array:
    """Return for each value whether it is in the list ``wanted``, like SQL's ``IN``.

    The result is null (unknown) for a null value. If the list contains a null, it is also null for a value that is
    not in the list.
    """
    known = [one for one in wanted if one is not None]
    kind = pa.int64() if pa.types.is_integer(values.type) else values.type
    found = pc.is_in(values.cast(kind), value_set=pa.array(known, kind))
    unknown = pc.is_null(values) if len(known) == len(wanted) else pc.invert(found)
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


def cheap_first(predicates: Iterable[Predicate]) -> list[Predicate]:
    """Sort a WHERE clause's conditions so that those on cheap columns come first.

    For events that fail a cheap condition, expensive columns such as ``gtid`` or ``rows`` are then not computed.
    """
    return sorted(predicates, key=lambda predicate: predicate.column in _COSTLY)


def may_hold(predicates: Iterable[Predicate], file: str, start: int, end: int) -> bool:
    """Tell whether the bytes of the binlog file ``file`` from ``start`` to ``end`` - 1 can contain an event for which
    all predicates are true.

    Only predicates on the columns ``file`` and ``position`` are evaluated, so the file need not be read.
    """
    for predicate in predicates:
        if predicate.column == "file":
            values = pa.array([file], pa.string())
        elif predicate.column == "position" and not isinstance(predicate.filter, D.Not):
            # A comparison that is true anywhere in the part is true at an end of the part, or at a value of its own.
            given: Any = getattr(predicate.filter, "value", None)
            named = given if isinstance(predicate.filter, D.In) else [given]
            inside = [one for one in named if one is not None and start <= one < end]
            values = pa.array([start, end - 1, *inside], pa.int64())
        else:
            continue
        if not pc.any(predicate(values)).as_py():
            return False
    return True
