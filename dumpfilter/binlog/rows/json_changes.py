"""Partial updates of JSON documents: computing the new document from the old one and the logged changes.

Source: ``apply_json_diffs`` in ``sql-common/json_diff.cc`` of MySQL.
"""

from __future__ import annotations

import json
import re

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.base.printable import printable
from dumpfilter.binlog.rows.json_binary import (
    MOST_DEPTH,
    JsonChange,
    JsonNode,
    JsonOperation,
    JsonValue,
    json_changes,
    json_text,
    json_tree,
)

_LEG = re.compile(r'\.(?:"((?:[^"\\]|\\.)*)"|([^.\[\]"]+))|\[(\d+)\]', re.S)
"""The pattern of one leg (step) of a JSON path: ``.member`` with or without quotes, or ``[index]``."""

Leg = str | int
"""One leg (step) of a JSON path: the name of a member, or the index of an array's element."""


def changed_document(document: bytes, changes: bytes) -> str:
    """Return the JSON text of a document after the changes of a partial update.

    ``document`` is the binary JSON value before the update. Raises BinlogCorrupt, also for a change to an element that
    the document lacks.
    """
    root = json_tree(document)
    for change in json_changes(changes):
        root = _changed(root, change)
    return json_text(root)


def path_legs(path: str) -> list[Leg]:
    r"""Return the legs (steps) of a JSON path that the server wrote to the binlog. Raises BinlogCorrupt for another
    text.

    >>> path_legs('$.a[2]."x y"'), path_legs("$")
    (['a', 2, 'x y'], [])
    """
    legs: list[Leg] = []
    at = 1
    while at < len(path) and path[0] == "$":
        leg = _LEG.match(path, at)
        if leg is None:
            break
        quoted, name, number = leg.groups()
        try:
            legs.append(
                json.loads(f'"{quoted}"', strict=False) if quoted is not None else name or int(number)
            )
        except ValueError:
            break
        at = leg.end()
    # Each change may nest its value deeper by its path, so that the length of paths limits the depth of the document.
    if path[:1] != "$" or at != len(path) or len(legs) > MOST_DEPTH:
        raise BinlogCorrupt(f"a partial update has {printable(path)!r} instead of a JSON path")
    return legs


def _changed(root: JsonNode, change: JsonChange) -> JsonNode:
    *above, last = [None, *path_legs(change.path)]
    parent = root
    for leg in above[1:]:
        parent = _element(parent, leg, change)
    if last is None:
        if change.operation != JsonOperation.REPLACE or change.value is None:
            raise _misfit(change)
        return change.value
    if change.operation == JsonOperation.INSERT and change.value is not None:
        _insert(parent, last, change.value, change)
        return root
    _element(parent, last, change)
    assert not isinstance(parent, JsonValue)
    if change.value is None:
        del parent[last]  # type: ignore[arg-type]
    else:
        parent[last] = change.value  # type: ignore[index]
    return root


def _element(parent: JsonNode, leg: Leg | None, change: JsonChange) -> JsonNode:
    if isinstance(parent, dict) and isinstance(leg, str) and leg in parent:
        return parent[leg]
    if isinstance(parent, list) and isinstance(leg, int) and leg < len(parent):
        return parent[leg]
    raise _misfit(change)


def _insert(parent: JsonNode, leg: Leg, value: JsonNode, change: JsonChange) -> None:
    if isinstance(parent, list) and isinstance(leg, int):
        parent.insert(leg, value)
    elif isinstance(parent, dict) and isinstance(leg, str) and leg not in parent:
        members = [*parent.items(), (leg, value)]
        members.sort(key=lambda member: _order(member[0]))
        parent.clear()
        parent.update(members)
    else:
        raise _misfit(change)


def _order(name: str) -> tuple[int, bytes]:
    """Return the sort key of a member: MySQL sorts short names before long ones (``Json_key_comparator``)."""
    raw = name.encode("utf-8", "surrogatepass")
    return len(raw), raw


def _misfit(change: JsonChange) -> BinlogCorrupt:
    return BinlogCorrupt(
        f"a partial update makes a {change.function} at {printable(change.path)}, "
        "which does not fit the JSON document before the update"
    )
