"""Filter pushdown: conditions of a query's WHERE clause that the data source ``binlog`` evaluates instead of Spark.

Spark passes the conditions as filter objects. Each becomes a predicate on one column, with SQL's three-valued logic.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as D

from dumpfilter.spark_jobs.source.columns import ROW_TYPES, TYPES
from dumpfilter.spark_jobs.source.reading import Predicate

_TIMESTAMP = TYPES["timestamp"]
_PYTHON_TYPES: dict[pa.DataType, type] = {
    pa.string(): str,
    pa.int64(): int,
    pa.int32(): int,
    pa.bool_(): bool,
    _TIMESTAMP: datetime.datetime,
}
_COSTLY = ("gtid", "database", "table", "statement_kind", "rows", "sql")


def _kind(values: pa.Array) -> pa.DataType:
    # A query may compare a 32-bit column with a number that needs 64 bits, so every integer becomes a 64-bit number.
    return pa.int64() if pa.types.is_integer(values.type) else values.type


def _compare(compare: Callable[..., pa.Array]) -> Callable[[pa.Array, Any], pa.Array]:
    return lambda values, other: compare(values, pa.scalar(other, _kind(values)))


def _equal_or_both_null(values: pa.Array, other: Any) -> pa.Array:
    if other is None:
        return pc.is_null(values)
    return pc.fill_null(pc.equal(values, pa.scalar(other, _kind(values))), False)


def _among(values: pa.Array, wanted: Sequence[Any]) -> pa.Array:
    """Return for each value whether it is in the list ``wanted``, like SQL's ``IN``.

    The result is null (unknown) for a null value. If the list contains a null, it is also null for a value that is
    not in the list.
    """
    kind = _kind(values)
    known = [one for one in wanted if one is not None]
    found = pc.is_in(values.cast(kind), value_set=pa.array(known, kind))
    unknown = pc.is_null(values) if len(known) == len(wanted) else pc.invert(found)
    return pc.if_else(unknown, pa.scalar(None, pa.bool_()), found)


_TESTS: dict[type[D.Filter], Callable[[pa.Array, Any], pa.Array]] = {
    D.IsNull: lambda values, _: pc.is_null(values),
    D.IsNotNull: lambda values, _: pc.is_valid(values),
    D.EqualTo: _compare(pc.equal),
    D.EqualNullSafe: _equal_or_both_null,
    D.GreaterThan: _compare(pc.greater),
    D.GreaterThanOrEqual: _compare(pc.greater_equal),
    D.LessThan: _compare(pc.less),
    D.LessThanOrEqual: _compare(pc.less_equal),
    D.In: _among,
    D.StringStartsWith: pc.starts_with,
    D.StringEndsWith: pc.ends_with,
    D.StringContains: pc.match_substring,
}
_OF_TEXTS = (D.StringStartsWith, D.StringEndsWith, D.StringContains)


def _evaluate(filter: D.Filter, values: pa.Array) -> pa.Array:
    if isinstance(filter, D.Not):
        return pc.invert(_evaluate(filter.child, values))
    return _TESTS[type(filter)](values, getattr(filter, "value", None))


def predicate_of(filter: D.Filter, types: Mapping[str, pa.DataType] = TYPES) -> Predicate | None:
    """Return a Spark filter (a condition of a WHERE clause) as a predicate that the data source evaluates. ``types``
    has the types of the query's columns by name.

    Return None if the data source cannot evaluate the condition exactly as Spark would. Spark must then evaluate it.
    That includes conditions on the columns of changed rows, of which an event may have several.
    """
    inner: Any = filter.child if isinstance(filter, D.Not) else filter
    path: tuple[str, ...] = getattr(inner, "attribute", ())
    if type(inner) not in _TESTS or len(path) != 1 or path[0] not in types or path[0] in ROW_TYPES:
        return None
    column, value = path[0], getattr(inner, "value", None)
    values = tuple(value or ()) if type(inner) is D.In else (value,)
    if type(inner) in _OF_TEXTS:
        comparable = isinstance(value, str) and types[column] == pa.string()
    else:
        comparable = all(_fits(one, types[column]) for one in values)
    limits = None if isinstance(filter, D.Not) else values
    return Predicate(column, partial(_evaluate, filter), limits) if comparable else None


def _fits(value: Any, column: pa.DataType) -> bool:
    if value is None:
        return True
    if column == _TIMESTAMP:
        return isinstance(value, datetime.datetime) and value.tzinfo is not None
    if isinstance(value, bool) and column != pa.bool_():
        return False
    return isinstance(value, _PYTHON_TYPES[column])


def cheap_first(predicates: Iterable[Predicate]) -> list[Predicate]:
    """Return the conditions of a WHERE clause in another order: those on columns that are cheap to compute come first.

    For events that fail a cheap condition, expensive columns such as ``gtid`` or ``rows`` are then not computed.
    """
    return sorted(predicates, key=lambda predicate: predicate.column in _COSTLY)
