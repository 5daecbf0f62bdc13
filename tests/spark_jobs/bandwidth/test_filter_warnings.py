"""The bandwidth job's warnings name the slaves of a filter once."""

from __future__ import annotations

from dumpfilter.filter import Filter
from dumpfilter.index.subjects import TableSubject
from dumpfilter.spark_jobs.bandwidth.job import by_slave, filter_warnings, lines_of

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


def test_the_gravest_warning_of_each_slave_comes_first() -> None:
    """A warning of a third slave is not hidden behind the second warning of the first one."""
    slaves = [
        ("two", Filter.from_options(["--replicate-ignore-db=hr", "--replicate-do-db=shop"])),
        ("comma", Filter.from_options(["--replicate-do-db=shop", "--replicate-do-db=shop,hr"])),
        ("broken", Filter.from_options(["--replicate-do-table=shop.%"])),
    ]
    found = lines_of(filter_warnings(slaves, SUBJECTS, is_whole=True))
    assert [":".join(line.split(":")[:2]) for line in found] == [
        "slave broken: wildcard",
        "slave comma: comma",
        "slave two: not-asked",
        "slave broken: nothing-passes",
    ]
