"""Partial updates of JSON documents: the document after the update."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.cursor import packed_integer
from dumpfilter.binlog.rows.json_binary import changed_document, path_legs
from tests.binlog.rows.recorded import all_pairs
from tests.binlog.rows.test_json_binary import encoded

REPLACE, INSERT, REMOVE = range(3)
NOTHING = object()

names = st.text(st.sampled_from('ab ."\\é日[$\x01'), max_size=3)
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)


def sized(data: bytes) -> bytes:
    return packed_integer(len(data)) + data


def change(operation: int, legs: list[str | int], value: Any = NOTHING) -> bytes:
    path = "$" + "".join(f"[{leg}]" if isinstance(leg, int) else f".{json.dumps(leg)}" for leg in legs)
    return bytes((operation,)) + sized(path.encode()) + (b"" if value is NOTHING else sized(encoded(value)))


def ordered(value: Any) -> Any:
    """Return a document with the members of its objects in MySQL's order."""
    if isinstance(value, dict):
        members = sorted(value.items(), key=lambda member: (len(member[0].encode()), member[0].encode()))
        return {name: ordered(one) for name, one in members}
    return [ordered(one) for one in value] if isinstance(value, list) else value


@given(document=documents, data=st.data())
def test_changes_are_made_one_after_the_other(document: Any, data: st.DataObject) -> None:
    document = ordered(document)
    after, changes = copy.deepcopy(document), b""
    for _ in range(data.draw(st.integers(1, 4))):
        legs: list[str | int] = []
        parent = after
        while isinstance(parent, dict | list) and parent and data.draw(st.booleans()):
            leg = data.draw(st.sampled_from(list(parent) if isinstance(parent, dict) else range(len(parent))))
            legs.append(leg)
            inner = parent[leg]
            if not isinstance(inner, dict | list):
                break
            parent = inner
        else:
            if isinstance(parent, dict | list):
                leg = data.draw(names if isinstance(parent, dict) else st.integers(0, len(parent)))
                legs.append(leg)
        if not legs:
            continue
        last = legs[-1]
        value = ordered(data.draw(documents))
        exists = last in parent if isinstance(parent, dict) else last < len(parent)
        if exists and data.draw(st.booleans()):
            del parent[last]
            changes += change(REMOVE, legs)
        elif exists and (isinstance(parent, dict) or data.draw(st.booleans())):
            parent[last] = copy.deepcopy(value)
            changes += change(REPLACE, legs, value)
        else:
            if isinstance(parent, list):
                parent.insert(last, copy.deepcopy(value))
            else:
                parent[last] = copy.deepcopy(value)
            changes += change(INSERT, legs, value)
    assert changed_document(encoded(document), changes) == json.dumps(ordered(after), ensure_ascii=False)


def test_the_document_after_an_update_is_that_before_the_next_change_of_the_row() -> None:
    known: dict[str, dict[str, str | None]] = {}
    compared = 0
    for before, after in all_pairs("mysql97-full"):
        if before and "j" in before and "k" in before and before["id"] in known:
            assert before == known[before["id"]]
            compared += 1
        # Images of MINIMAL lack columns, so that the row is not known after them.
        if before:
            known.pop(before.get("id") or "", None)
        if after and {"id", "j", "k"} <= after.keys():
            known[after["id"] or ""] = after
    assert compared == 8


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (change(REMOVE, ["b"]), 'JSON_REMOVE at $."b", which does not fit'),
        (change(REPLACE, ["a", 3], 1), "does not fit"),
        (change(INSERT, ["a"], 1), "does not fit"),
        (change(INSERT, [0], 1), "does not fit"),
        (change(REMOVE, []), "does not fit"),
        (bytes((REMOVE,)) + sized(b"$.*"), "JSON_REMOVE at"),
        (bytes((REMOVE,)) + sized(b"a"), "instead of a JSON path"),
        (bytes((REMOVE,)) + sized(b"$[x]"), "instead of a JSON path"),
        (change(REMOVE, [0] * 101), "instead of a JSON path"),
    ],
)
def test_changes_that_do_not_fit_are_refused(changes: bytes, why: str) -> None:
    with pytest.raises(BinlogCorrupt, match=why.replace("$", "[$]")):
        changed_document(encoded({"a": [1, 2, 3]}), changes)


def test_a_change_at_the_root_replaces_the_document() -> None:
    assert changed_document(encoded({"a": 1}), change(REPLACE, [], [2])) == "[2]"
    assert changed_document(b"", change(REPLACE, [], "x")) == '"x"'
    assert path_legs("$[10].a") == [10, "a"]
