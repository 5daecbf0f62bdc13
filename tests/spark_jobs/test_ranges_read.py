"""Reading a set with guessed ranges gives what the index pass and its ranges give, also after wrong guesses."""

from __future__ import annotations

import random
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt, BinlogError
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.binlog.events import LOG_EVENT_BINLOG_IN_USE_F
from dumpfilter.binlog.gap_events import make_head
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.workload import START, Span, generate
from dumpfilter.dump.packets.protocol import rotate
from dumpfilter.index.fileset import BinlogFile, open_file
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.index.time_spans import active_seconds
from dumpfilter.spark_jobs import ranges as ranges_module
from dumpfilter.spark_jobs.options import ReadOptions
from dumpfilter.spark_jobs.ranges import IndexedSet, Range, ReadRanges, index_parts, parts_of, read_set
from tests.dump.test_xa import Made
from tests.spark_jobs.here import run_here, shuffled
from tests.strategies import MadeBinlog, binlogs
from tests.support import RECORDED_SETS, binlogs_in, recording_id

Sums = Counter[tuple[frozenset[Subject] | None, int]]


@dataclass(frozen=True, kw_only=True)
class Count(ReadRanges):
    """A task that counts the bytes of each subject and event type."""

    def __call__(self, ranges: Iterable[Range]) -> Sums:
        found: Sums = Counter()
        for wanted in ranges:
            subjects = Subjects()
            with open_file(wanted.path) as file:
                for block in self.blocks(file, wanted, subjects, SourceNumbers()):
                    one = block.segment
                    columns = (one.subject.tolist(), one.type.tolist(), one.size.tolist())
                    for number, kind, size in zip(*columns, strict=True):
                        members = (
                            None if number < 0 else frozenset(subjects[k] for k in subjects.single(number))
                        )
                        found[members, kind] += size
        return found


def read(source: Path | Sequence[Path], options: ReadOptions) -> tuple[IndexedSet, Sums]:
    """Return the set's index and the sums of all ranges."""
    indexed, parts = read_set(
        parts_of(source), shuffled, options, lambda _: Count(options=options), "counting"
    )
    return indexed, sum(parts, Counter())


def indexed_first(source: Path | Sequence[Path], options: ReadOptions) -> tuple[IndexedSet, Sums]:
    """Return what :func:`read` returns, from the ranges of the index pass."""
    indexed = index_parts(parts_of(source), run_here, options)
    return indexed, Count(options=options)(indexed.ranges)


def told(found: tuple[IndexedSet, Sums]) -> tuple[object, ...]:
    """Return what does not depend on the division into ranges."""
    indexed, sums = found
    files = [replace(one, bounds=(), has_xa=False) for one in indexed.files]
    return files, indexed.unknown_xa, indexed.subjects, sums


def wrong_guesses(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Make some guesses wrong: events inside of transactions, and offsets inside of events."""
    right, chance = ranges_module._begin_of_transaction, random.Random(seed)

    def guess(file: BinlogFile, offset: int) -> tuple[int, int] | None:
        found = right(file, offset)
        if found is None or chance.random() < 0.5:
            return found
        return found[0] + chance.choice([1, 19, int.from_bytes(file.read(found[0] + 9, 4), "little")]), 0

    monkeypatch.setattr(ranges_module, "_begin_of_transaction", guess)


@given(
    made=st.lists(binlogs(), min_size=1, max_size=2),
    range_size=st.integers(100, 3000),
    block_size=st.integers(200, 3000),
    seed=st.none() | st.integers(0, 99),
)
@settings(max_examples=settings().max_examples // 2)
def test_guessed_ranges_give_what_the_index_pass_gives(
    made: list[MadeBinlog], range_size: int, block_size: int, seed: int | None
) -> None:
    options = ReadOptions(range_size=range_size, block_size=block_size)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        paths = [Path(folder, f"made.{number:06}") for number in range(len(made))]
        for path, one in zip(paths, made, strict=True):
            path.write_bytes(one.data)
        if seed is not None:
            wrong_guesses(patched, seed)
        assert told(read(paths, options)) == told(indexed_first(paths, options))


def test_events_that_a_slave_adds_at_the_head_of_a_relay_log_are_not_read(tmp_path: Path) -> None:
    with open_file(str(binlogs_in(RECORDED_SETS[0])[0])) as file:
        head, rest = file.read(0, file.first_event), file.read(file.first_event, file.size - file.first_event)
        checksum = bool(file.format_description.checksum_length)
    added = rotate("bin.000001", len(head), 1, checksum), make_head({}, server_id=1, checksum=checksum)
    plain, relay = tmp_path / "bin.000001", tmp_path / "relay-bin.000001"
    plain.write_bytes(head + rest)
    relay.write_bytes(head + b"".join(added) + rest)
    for take in (read, indexed_first):
        assert take([relay], ReadOptions())[1] == take([plain], ReadOptions())[1]


@pytest.mark.parametrize("recording", RECORDED_SETS[1::9], ids=recording_id)
def test_recordings(recording: Path) -> None:
    files, options = binlogs_in(recording), ReadOptions(range_size=2000, block_size=5000)
    assert told(read(files, options)) == told(indexed_first(files, options))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The index file of a set of two files, 600 kB."""
    return generate(tmp_path_factory.mktemp("set"), 600_000, file_size=300_000, seed=5).index


def test_a_sound_set_is_read_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges_module, "index_parts", lambda *_: pytest.fail("the index pass ran"))
    indexed, _ = read(source, ReadOptions(range_size=20_000))
    assert len(indexed.ranges) > 20


@pytest.mark.parametrize("seed", range(5))
def test_wrong_guesses_are_noticed(source: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    options = ReadOptions(range_size=20_000)
    wanted = told(indexed_first(source, options))
    wrong_guesses(monkeypatch, seed)
    assert told(read(source, options)) == wanted


def test_a_file_with_few_begins_of_transactions_is_divided_by_the_index_pass(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ReadOptions(range_size=20_000)
    monkeypatch.setattr(ranges_module, "_SEARCHED", 1000)
    monkeypatch.setattr(ranges_module, "_begin_of_transaction", lambda file, offset: None)
    indexed, _ = found = read(source, options)
    assert len(indexed.ranges) > 20
    assert told(found) == told(indexed_first(source, options))


@pytest.mark.parametrize("cut", [1, 30, 150_000])
@pytest.mark.parametrize("block_size", [1000, 100_000])
def test_a_file_that_a_server_writes_ends_with_its_last_whole_transaction(
    source: Path, tmp_path: Path, block_size: int, cut: int
) -> None:
    data = bytearray(source.with_name("bin.000002").read_bytes()[:-cut])
    data[FIRST_EVENT + 17] |= LOG_EVENT_BINLOG_IN_USE_F
    path = tmp_path / "bin.000002"
    path.write_bytes(data)
    options = ReadOptions(range_size=20_000, block_size=block_size)
    indexed, _ = found = read([path], options)
    # With small blocks, the task has read a part of the incomplete transaction.
    assert indexed.is_guessed is (block_size == 100_000)
    assert indexed.files[0].end < indexed.files[0].size
    # A later pass over the ranges must not read what the server writes meanwhile.
    assert indexed.ranges[-1].last is None
    assert indexed.ranges[-1].end == indexed.files[0].end
    assert told(found) == told(indexed_first([path], options))


@pytest.mark.parametrize("at", [20_100, 150_000, 299_000])
def test_damage(source: Path, tmp_path: Path, at: int) -> None:
    data = bytearray(source.with_name("bin.000001").read_bytes())
    data[at] ^= 1
    path = tmp_path / "bin.000001"
    path.write_bytes(data)
    files = [path, source.with_name("bin.000002")]
    skip = ReadOptions(range_size=20_000, on_corrupt="skip")
    assert told(read(files, skip)) == told(indexed_first(files, skip))
    stop = ReadOptions(range_size=20_000)
    with pytest.raises(BinlogError) as caught:
        read(files, stop)
    with pytest.raises(BinlogError) as wanted:
        indexed_first(files, stop)
    assert str(caught.value) == str(wanted.value)


def test_a_file_that_is_no_binlog(source: Path, tmp_path: Path) -> None:
    files = [tmp_path / "bin.000001", source.with_name("bin.000002")]
    files[0].write_bytes(b"no binlog")
    skip = ReadOptions(on_corrupt="skip")
    assert told(read(files, skip)) == told(indexed_first(files, skip))
    with pytest.raises(BinlogError, match=r"bin\.000001"):
        read(files, ReadOptions())


@pytest.mark.parametrize("is_known", [True, False])
def test_the_end_of_an_xa_transaction_in_another_range(tmp_path: Path, is_known: bool) -> None:
    made = Made()
    made.prepare("a", "shop", "logs")
    made.next_file()
    made.finish("a")
    index = made.write(tmp_path, first=int(not is_known))
    found = read(index, ReadOptions())
    assert told(found) == told(indexed_first(index, ReadOptions()))
    assert found[0].unknown_xa == int(not is_known)


def test_the_results_of_a_wrong_guess_are_freed_before_the_files_are_read_again(tmp_path: Path) -> None:
    made = Made()
    made.prepare("a", "shop", "logs")
    made.next_file()
    made.finish("a")
    results: list[weakref.ref[Sums]] = []

    def task_of(_: IndexedSet) -> Callable[[Sequence[Range]], Sums]:
        assert all(one() is None for one in results)

        def task(ranges: Sequence[Range]) -> Sums:
            found = Count(options=ReadOptions())(ranges)
            results.append(weakref.ref(found))
            return found

        return task

    read_set(parts_of(made.write(tmp_path)), run_here, ReadOptions(), task_of, "counting")
    assert len(results) > 1


def test_the_times_of_a_guess_include_one_near_the_end(tmp_path: Path) -> None:
    index = generate(tmp_path, 3_000_000, span=Span(START, 3600)).index
    seconds: list[int] = []

    def task_of(indexed: IndexedSet) -> Count:
        seconds.append(active_seconds(indexed.times))
        return Count(options=ReadOptions())

    indexed, _ = read_set(parts_of(index), run_here, ReadOptions(), task_of, "counting")
    assert len(indexed.ranges) == 1
    assert seconds[0] > 1800


def test_no_transaction_is_searched_after_the_end_of_a_file(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set may have thousands of small files, and files of a server without GTIDs."""
    path = source.with_name("bin.000001")
    with open_file(str(path)) as file:
        begin, reads = file.size - 10, list[int]()
        read_up_to = BinlogFile.read_up_to
        monkeypatch.setattr(
            BinlogFile, "read_up_to", lambda *wanted: reads.append(wanted[1]) or read_up_to(*wanted)
        )
        assert ranges_module._begin_of_transaction(file, begin) is None
    assert reads == [begin]


def test_a_range_must_not_end_inside_a_transaction(source: Path) -> None:
    path = source.with_name("bin.000001")
    with open_file(str(path)) as file:
        first = file.first_event
        size = int.from_bytes(file.read(first + 9, 4), "little")
        begin = first + size
        end = begin + int.from_bytes(file.read(begin + 9, 4), "little")
        with pytest.raises(BinlogCorrupt, match="not those that the file had") as caught:
            Count(options=ReadOptions())([Range(str(path), begin, end)])
    assert caught.value.position == end
