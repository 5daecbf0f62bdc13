"""The bandwidth job's warnings name the slaves of a filter once."""

from __future__ import annotations

from dumpfilter.filter.filter import Filter
from dumpfilter.index.subjects import TableSubject
from dumpfilter.spark_jobs.bandwidth.job import filter_warnings

SUBJECTS = [TableSubject("shop", "orders"), TableSubject("hr", "emp")]


def test_slaves_with_the_same_fault_share_a_warning() -> None:
    wrong = Filter.from_options(["--replicate-do-db=shop", "--replicate-do-db=shop,hr"])
    right = Filter.from_options(["--replicate-do-db=shop"])
    slaves = [("a", wrong), ("b", right), ("c", wrong)]
    found = filter_warnings(slaves, SUBJECTS, is_whole=True)
    ((text, names),) = found.items()
    assert names == ["a", "c"]
    assert text.startswith("comma: --replicate-do-db=shop,hr: ")


def test_notes_are_left_out() -> None:
    unused = Filter.from_options(["--replicate-ignore-db=scratch"])
    assert filter_warnings([("a", unused)], SUBJECTS, is_whole=True) == {}


def test_the_first_warning_of_each_slave_comes_first() -> None:
    """A warning of a third slave is not hidden behind the second warning of the first one."""
    slaves = [
        ("two", Filter.from_options(["--replicate-ignore-db=hr", "--replicate-do-db=shop"])),
        ("comma", Filter.from_options(["--replicate-do-db=shop", "--replicate-do-db=shop,hr"])),
        ("broken", Filter.from_options(["--replicate-do-table=shop.%"])),
    ]
    found = filter_warnings(slaves, SUBJECTS, is_whole=True)
    assert [(*names, text.split(":")[0]) for text, names in found.items()] == [
        ("two", "not-asked"),
        ("comma", "comma"),
        ("broken", "wildcard"),
        ("broken", "nothing-passes"),
    ]
