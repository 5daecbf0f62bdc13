"""The bandwidth job's warnings name the slaves of a filter once."""

from __future__ import annotations

from dumpfilter.filter import Filter
from dumpfilter.index.subjects import TableSubject
from dumpfilter.spark_jobs.bandwidth.filter_warnings import filter_warnings

SUBJECTS = [TableSubject("shop", "orders"), TableSubject("hr", "emp")]


def test_slaves_with_the_same_fault_share_a_warning() -> None:
    wrong = Filter.from_options(["--replicate-do-db=shop", "--replicate-do-db=shop,hr"])
    right = Filter.from_options(["--replicate-do-db=shop"])
    slaves = [("a", wrong), ("b", right), ("c", wrong)]
    (line,) = filter_warnings(slaves, SUBJECTS, is_whole=True)
    assert line.startswith("slaves a, c: comma: --replicate-do-db=shop,hr: ")


def test_notes_are_left_out() -> None:
    unused = Filter.from_options(["--replicate-ignore-db=scratch"])
    assert list(filter_warnings([("a", unused)], SUBJECTS, is_whole=True)) == []
