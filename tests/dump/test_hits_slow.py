"""The slow tests beside :mod:`tests.dump.test_hits`."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import EffectiveRuleKind, Hits, Rule, RuleKind, make_rule
from tests.dump.test_hits import check
from tests.dump.test_law import EFFECTIVE_RULES, of_rules
from tests.strategies import (
    MadeBinlog,
    binlogs,
    rules,
)
from tests.support import RECORDED, MemoryFile, recording_id

MADE = binlogs(unreadable=True)


@given(
    made=MADE,
    given_rules=rules() | EFFECTIVE_RULES,
    chunk_size=st.integers(1, 800),
    segment_size=st.integers(1, 1200) | st.just(1 << 16),
)
def test_nothing_is_lost_and_nothing_counted_twice(
    made: MadeBinlog, given_rules: list[Rule], chunk_size: int, segment_size: int
) -> None:
    own = of_rules(given_rules, made.dialect.family)
    check(made.data, own, chunk_size=chunk_size, segment_size=segment_size)


def _only_sure(given_rules: list[Rule]) -> list[Rule]:
    """Return the rules about databases. A filter with only such rules decides every subject."""
    return [rule for rule in given_rules if rule.kind in (RuleKind.DO_DB, RuleKind.IGNORE_DB)]


@given(
    made=binlogs(odd=False),
    given_rules=rules(),
    others=st.tuples(rules(), rules()),
    segment_size=st.integers(1, 1200),
)
def test_what_others_keep_out_never_comes_to_the_filter(
    made: MadeBinlog, given_rules: list[Rule], others: tuple[list[Rule], list[Rule]], segment_size: int
) -> None:
    make = functools.partial(Filter, names=NameRules(made.dialect.family))
    check(
        made.data,
        make(given_rules),
        segment_size=segment_size,
        write=make(_only_sure(others[0])),
        imposed=[make(_only_sure(others[1]))],
    )


@pytest.mark.parametrize(("number", "path"), list(enumerate(RECORDED)), ids=map(recording_id, RECORDED))
def test_recordings(number: int, path: Path) -> None:
    """Each file has the effective filter and one of the other filters, in turn."""
    data = path.read_bytes()
    family = MemoryFile(data).format_description.family
    total: Hits = Counter()
    filters = (
        ["--replicate-ignore-db=d1"],
        ["--replicate-wild-ignore-table=%.t%", "--replicate-rewrite-db=d1->d2"],
        ["--replicate-do-table=d1.t1", "--replicate-wild-do-table=mysql.%"],
        ["--replicate-do-db=nowhere"],
    )
    own = Filter.from_options(filters[number % len(filters)], names=NameRules(family))
    total += check(data, own, chunk_size=4096, segment_size=10_000)
    effective = EffectiveFilter(
        [make_rule(EffectiveRuleKind.IGNORE, "%.%"), make_rule(EffectiveRuleKind.DO, "%.t1")],
        names=NameRules(family),
    )
    total += check(data, effective)
    # Some files contain no transactions.
    assert total or len(data) < 1000
