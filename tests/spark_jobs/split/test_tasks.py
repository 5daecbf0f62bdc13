"""A saved plan of a range is read back as it was."""

from __future__ import annotations

import ast
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.spark_jobs.split.tasks import RangePlan

NUMBERS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=8)


def arrays(columns: int) -> st.SearchStrategy[np.ndarray]:
    row = st.tuples(*[NUMBERS] * columns)
    return st.lists(row, max_size=4).map(lambda rows: np.array(rows, np.int64).reshape(-1, columns))


PLANS = st.builds(
    RangePlan,
    blocks=arrays(2),
    pieces=arrays(5),
    transactions=arrays(7),
    outputs=st.lists(NAMES, max_size=3),
    sources=st.just([]),
    replaced=st.dictionaries(
        st.integers(0, 9),
        st.dictionaries(st.integers(0, 2**62), st.binary(max_size=9), max_size=2),
        max_size=2,
    ),
    cut=st.integers(0, 2**62),
    first_cut=st.none() | st.tuples(st.integers(0, 2**62), st.tuples(NAMES, NAMES)),
    unassigned=st.integers(0, 2**62),
)


def parts(plan: RangePlan) -> list[object]:
    return [part.tolist() if isinstance(part, np.ndarray) else part for part in plan]


@given(PLANS)
def test_a_plan_is_read_as_it_was_saved(plan: RangePlan) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "plan")
        plan.save(path)
        assert parts(RangePlan.load(path)) == parts(plan)
        without = RangePlan.load(path, with_pieces=False)
        assert without.pieces.shape == (0, 5)
        assert parts(without._replace(pieces=plan.pieces)) == parts(plan)


def test_a_plan_is_read_without_a_parser_of_python_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy's reader has one. In Python 3.11 it fails at times when two threads use it at once."""

    def fail(text: str) -> object:
        raise SystemError(text)

    plan = RangePlan(*(np.zeros((1, n), np.int64) for n in (2, 7, 5)), ["shop"], [], {}, 0, None, 0)
    plan.save(tmp_path / "plan")
    monkeypatch.setattr(ast, "literal_eval", fail)
    assert parts(RangePlan.load(tmp_path / "plan")) == parts(plan)
