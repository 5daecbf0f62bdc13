"""Fifty different filters, and the tables that each of them sends, told without the product's own filter."""

from __future__ import annotations

from fnmatch import fnmatchcase

from dumpfilter.v1 import dumpfilter_pb2 as pb

NUMBER = 50
"""The number of different filters. A fifth of them have no rule about ``marker.t``, or rules that keep it out."""

_SCHEMAS = 20


def rules_of(number: int) -> list[tuple[str, str]]:
    """Return the rules of a filter: the name of each rule's kind in ``dumpfilter.proto``, and its value."""
    kind, step = number % 5, number // 5 % 10
    if kind == 0:
        return [("REPLICATE_IGNORE_DB", f"scratch_{step}")] if step else []
    if kind == 1:
        return [("REPLICATE_DO_DB", f"shop_{(2 * step + k) % _SCHEMAS:02}") for k in (0, 1)]
    if kind == 2:
        return [("REPLICATE_IGNORE_DB", f"shop_{(step + 3 * k) % _SCHEMAS:02}") for k in range(5)]
    if kind == 3:
        return [("REPLICATE_WILD_DO_TABLE", f"shop_{step:02}.table_0{step % 5}%")]
    return [("REPLICATE_WILD_IGNORE_TABLE", f"shop_%.table_0{step}%")]


def definition_of(number: int) -> pb.FilterDefinition:
    """Return a filter as a slave sends it to the master."""
    return pb.FilterDefinition(
        rules=[pb.Rule(kind=pb.RuleKind.Value(kind), value=value) for kind, value in rules_of(number)]
    )


def sends(number: int, schema: str, table: str) -> bool:
    """Tell whether a filter sends the rows of a table. Equals the servers' rules for row-based events."""
    rules = rules_of(number)
    kinds = {kind for kind, _ in rules}
    databases = {value for kind, value in rules if kind.endswith("_DB")}
    wild = any(fnmatchcase(f"{schema}.{table}", _pattern(v)) for k, v in rules if k.endswith("_TABLE"))
    if "REPLICATE_DO_DB" in kinds:
        return schema in databases
    if "REPLICATE_IGNORE_DB" in kinds:
        return schema not in databases
    if "REPLICATE_WILD_DO_TABLE" in kinds:
        return wild
    return not wild


def _pattern(value: str) -> str:
    return value.replace("_", "?").replace("%", "*")
