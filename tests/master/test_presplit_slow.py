"""Dumps from splits of all recordings and of generated binlogs, from every position."""

from __future__ import annotations

import tempfile
from operator import or_
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.binlog.format import NameRules, name_collation_of
from dumpfilter.errors import PositionError
from dumpfilter.filter import Filter
from dumpfilter.filter.rules import Rule
from dumpfilter.master.store import BinlogStore
from dumpfilter.spark_jobs.split.job import SplitOptions
from dumpfilter.spark_jobs.split.specification import NamedBinlog, Specification
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.test_presplit import SHOP, SMALL, SPECIFICATION, Slave, filter_of, same
from tests.spark_jobs.here import split_here
from tests.spark_jobs.walking import RECORDINGS
from tests.strategies import MadeBinlog, binlogs, rules


@pytest.mark.parametrize(("number", "name"), list(enumerate(RECORDINGS)), ids=RECORDINGS)
def test_recordings(number: int, name: str, tmp_path: Path) -> None:
    """Each recording serves three binlogs of its split, in turn."""
    made = split_here(RECORDINGS[name], tmp_path / "out", SMALL)
    store = BinlogStore(RECORDINGS[name])
    served = 0
    count = len(SPECIFICATION.binlogs)
    for one in [SPECIFICATION.binlogs[(number + more) % count] for more in range(3)]:
        wanted = filter_of(store.family, one.rules, store.names.collation)
        for chunk_size in (1, 1 << 18) if one.name == "wild" else (1,):
            ours = Slave(store, wanted, made.directory).stream(chunk_size=chunk_size)
            same(ours, Slave(store, wanted).stream(chunk_size=chunk_size))
            served += ours.from_split
            if chunk_size == 1:  # every transaction that is sent is a chunk in both
                assert len(ours.points) >= sum(
                    part.transactions for part in made.manifest.binlog(one.name).parts
                )
    # all of it came from there but for the last file's end
    assert served > 0
    store.close()


@settings(max_examples=40, deadline=None)
@given(
    made=binlogs() | binlogs(odd=False),
    given_rules=rules(),
    range_size=st.integers(1, 5000),
    block_size=st.integers(64, 5000),
    chunk_size=st.sampled_from([1, 100, 1000, 1 << 18]),
)
def test_made(
    made: MadeBinlog, given_rules: list[Rule], range_size: int, block_size: int, chunk_size: int
) -> None:
    names = name_collation_of(made.dialect.family, made.dialect.version)
    wanted = Filter(given_rules, names=NameRules(made.dialect.family, names))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "made.000001"
        source.write_bytes(made.data)
        named = NamedBinlog(name="it", rules=tuple(map(str, given_rules)))
        options = SplitOptions(
            specification=Specification((named,)), range_size=range_size, block_size=block_size
        )
        split_here(source, Path(folder) / "out", options)
        store = BinlogStore([source])
        ours = Slave(store, wanted, Path(folder) / "out").stream(chunk_size=chunk_size)
        same(ours, Slave(store, wanted).stream(chunk_size=chunk_size))
        store.close()
        tables = [pq.read_table(path) for path in (Path(folder) / "out" / "transactions").iterdir()]
        exact = [all(map(or_, one["exact"].to_pylist(), one["of_file"].to_pylist())) for one in tables]
        if wanted.is_on and exact and all(exact):
            assert ours.from_split == sum(map(len, ours.events.values())), "all of it came from there"


def test_it_begins_anywhere(tmp_path: Path) -> None:
    """At every place and after every GTID set where filtering may begin; and nowhere else."""
    for name in ("oracle/mysql-row", "oracle/mariadb-row"):
        made = split_here(RECORDINGS[name], tmp_path / name.replace("/", "-"), SMALL)
        store = BinlogStore(RECORDINGS[name])
        wanted = filter_of(store.family, SHOP)
        ours, others = Slave(store, wanted, made.directory), Slave(store, wanted)
        whole = others.stream(chunk_size=1)
        places = list(whole.points)
        served = 0
        for file, position in places[::4]:
            start = {"from": pb.BinlogPosition(file=file, position=position)}
            found = ours.stream(**start)
            same(found, others.stream(**start))
            served += found.from_split > 0
        for _, gtids, _, _ in list(whole.points.values())[::8]:
            found = ours.stream(gtid_set=gtids)
            same(found, others.stream(gtid_set=gtids))
        assert served > 5
        inside = {"from": pb.BinlogPosition(file=places[0][0], position=places[20][1] - 31)}
        errors = []
        for slave in (ours, others):
            with pytest.raises(PositionError) as caught:
                slave.stream(**inside)
            errors.append(str(caught.value))
        assert errors[0] == errors[1]
        store.close()
