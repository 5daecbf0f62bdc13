"""The bandwidth job's warnings name the slaves of a filter once."""

from __future__ import annotations

from dumpfilter.filter import Filter
from dumpfilter.index.subjects import TableSubject
from dumpfilter.spark_jobs.bandwidth.filter_warnings import by_slave, filter_warnings, lines_of

SUBJECTS = [TableSubject("shop", "orders"), TableSubject("hr", "emp")]


def test_slaves_with_the_same_fault_share_a_warning() -> None:
    wrong = Filter.from_options(["--replicate-do-db=shop", "--replicate-do-db=shop,hr"])
    right = Filter.from_options(["--replicate-do-db=shop"])
    slaves = [("a", wrong), ("b", right), ("c", wrong)]
    found = filter_warnings(slaves, SUBJECTS, is_whole=True)
    (line,) = lines_of(found)
    assert by_slave(found) == dict.fromkeys("ac", tuple(found))
    assert line.startswith("slaves a, c: comma: --replicate-do-db=shop,hr: ")


def test_notes_are_left_out() -> None:
    unused = Filter.from_options(["--replicate-ignore-db=scratch"])
    assert filter_warnings([("a", unused)], SUBJECTS, is_whole=True) == {}
