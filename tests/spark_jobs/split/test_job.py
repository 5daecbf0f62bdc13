"""The split without Spark: errors, damaged files, warnings, options."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.analyse.split_set import Manifest
from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogMissing, BinlogTruncated, OutputError
from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.spark_jobs.split.job import SplitOptions, TransactionSpans
from dumpfilter.spark_jobs.split.ownership import NamedBinlog, Specification
from tests.spark_jobs.here import Made, run_here, split_here
from tests.spark_jobs.walking import ORACLE, check_parts, walk
from tests.strategies import DIALECTS, T, _Builder, query_body, rows_body, table_map_body

SMALL = SplitOptions(range_size=8000, block_size=8192)
SET = ["bin.000001", "bin.000002", "bin.000003"]


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Copy a set of three files, which tests may damage."""
    shutil.copytree(ORACLE / "mysql-row", tmp_path / "set")
    return tmp_path / "set" / "bin.index"


def nothing_but(folder: Path, *names: str) -> bool:
    return sorted(path.name for path in folder.iterdir()) == sorted(names)


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


@pytest.mark.parametrize("options", [SMALL, SplitOptions()], ids=["many ranges", "one"])
def test_a_flipped_bit_is_named(options: SplitOptions, copied: Path, tmp_path: Path) -> None:
    flip(copied.with_name("bin.000001"), 100_000)
    with pytest.raises(BinlogCorrupt, match="checksum mismatch") as caught:
        split_here(copied, tmp_path / "out", options)
    events = iter_events(open(ORACLE / "mysql-row" / "bin.000001", "rb"), file="bin.000001")  # noqa: SIM115
    hit = next(event for event in events if event.offset <= 100_000 < event.offset + len(event.raw))
    assert (caught.value.file, caught.value.position) == ("bin.000001", hit.offset)
    assert nothing_but(tmp_path, "set")


def test_skip_takes_a_damaged_file_as_far_as_it_is_whole(copied: Path, tmp_path: Path) -> None:
    flip(copied.with_name("bin.000001"), 100_000)
    made = split_here(copied, tmp_path / "out", SplitOptions(on_corrupt="skip", range_size=8000))
    first, *others = made.manifest.source
    assert first.damage is not None
    assert "checksum mismatch" in first.damage
    assert first.damage.startswith("from ")
    assert made.warnings[0].startswith(f"bin.000001: skipped {first.damage.split(':')[0]}: ")
    assert [one.damage for one in others] == [None, None]
    assert [one.end for one in others] == [one.size for one in others]
    # The output is the same as that of undamaged files, the first of which ends at the damage.
    cut = tmp_path / "cut"
    shutil.copytree(ORACLE / "mysql-row", cut)
    os.truncate(cut / "bin.000001", first.end)
    assert 0 < first.end <= 100_000
    check_parts(cut / "bin.index", made)


def test_a_damaged_file_is_repaired(copied: Path, tmp_path: Path) -> None:
    """The file then has its former size and time. The split is not done, and continues no killed one."""
    path, out, work = copied.with_name("bin.000001"), tmp_path / "out", tmp_path / ".out.split-work"
    skip = SplitOptions(on_corrupt="skip", range_size=8000)
    times = path.stat()
    flip(path, 100_000)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def run(function: Callable[[Any], Any], tasks: Sequence[Any], label: str, **given: Any) -> Any:
        done = run_here(function, tasks, label)
        if label == "writing":
            shutil.copytree(work, tmp_path / "killed")
        return done

    split_here(copied, out, skip, run)
    flip(path, 100_000)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(OutputError, match="damaged binlogs"):
        split_here(copied, out, skip)
    shutil.rmtree(out)
    (tmp_path / "killed").rename(work)
    check_parts(copied, split_here(copied, out, skip))
    assert nothing_but(tmp_path, "set", "out")


@pytest.mark.parametrize("kind", ["empty", "text", "head"])
def test_a_file_that_is_no_binlog(kind: str, copied: Path, tmp_path: Path) -> None:
    spoilt = copied.with_name("bin.000002")
    whole = spoilt.read_bytes()
    spoilt.write_bytes({"empty": b"", "text": b"not a binlog\n", "head": whole[:50]}[kind])
    with pytest.raises(BinlogError) as caught:
        split_here(copied, tmp_path / "out")
    assert caught.value.file == "bin.000002"
    assert nothing_but(tmp_path, "set")
    made = split_here(copied, tmp_path / "out", SplitOptions(on_corrupt="skip"))
    assert [one.end > 0 for one in made.manifest.source] == [True, False, True]
    assert made.warnings[0].startswith("bin.000002: skipped all of it: ")
    check_parts_of(made, [copied.with_name("bin.000001"), copied.with_name("bin.000003")], tmp_path)


def check_parts_of(made: Made, files: list[Path], tmp_path: Path) -> None:
    """Check that the output is that of these files."""
    other = split_here(files, tmp_path / "of these")
    for one, expected in zip(made.sets, other.sets, strict=True):
        assert [path.read_bytes() for path in one.files] == [path.read_bytes() for path in expected.files]


def test_no_file_can_be_read(tmp_path: Path) -> None:
    files = [tmp_path / "bin.000001", tmp_path / "bin.000002"]
    for file in files:
        file.write_bytes(b"nothing")
    with pytest.raises(BinlogMissing, match="no file of the set can be read") as caught:
        split_here(files, tmp_path / "out", SplitOptions(on_corrupt="skip"))
    assert caught.value.file == "bin.000001"
    assert nothing_but(tmp_path, "bin.000001", "bin.000002")


@pytest.mark.parametrize("number", [0, 1])
def test_a_cut_file(number: int, copied: Path, tmp_path: Path) -> None:
    cut = copied.with_name(SET[number])
    os.truncate(cut, cut.stat().st_size - 7)
    with pytest.raises(BinlogTruncated, match="the file ends") as caught:
        split_here(copied, tmp_path / "out")
    assert caught.value.file == SET[number]
    assert nothing_but(tmp_path, "set")
    made = split_here(copied, tmp_path / "out", SplitOptions(on_corrupt="skip"))
    assert [one.damage is not None for one in made.manifest.source] == [k == number for k in range(3)]


def test_the_newest_file_may_be_growing(copied: Path, tmp_path: Path) -> None:
    newest = copied.with_name("bin.000003")
    os.truncate(newest, newest.stat().st_size - 7)
    made = split_here(copied, tmp_path / "out")
    assert made.manifest.source[2].damage is None
    assert made.manifest.source[2].end < newest.stat().st_size
    # A source that has grown makes another job.
    shutil.copy(ORACLE / "mysql-row" / "bin.000003", newest)
    with pytest.raises(OutputError, match="--overwrite"):
        split_here(copied, tmp_path / "out")
    check_parts(copied, split_here(copied, tmp_path / "out", SplitOptions(overwrite=True)))


def test_a_file_is_missing(copied: Path, tmp_path: Path) -> None:
    copied.with_name("bin.000002").unlink()
    with pytest.raises(BinlogMissing, match="no such file"):
        split_here(copied, tmp_path / "out")
    made = split_here(copied, tmp_path / "out", SplitOptions(on_corrupt="skip"))
    assert [one.damage is not None for one in made.manifest.source] == [False, True, False]


def test_the_sources_directory_is_no_output(copied: Path) -> None:
    with pytest.raises(OutputError, match="name another directory"):
        split_here(copied, copied.parent, SplitOptions(overwrite=True))
    assert copied.with_name("bin.000001").exists()


def test_a_split_that_holds_the_sources_is_not_replaced(copied: Path, tmp_path: Path) -> None:
    split_here(copied, tmp_path / "out")
    copied.parent.rename(tmp_path / "out" / "set")
    with pytest.raises(OutputError, match="holds the binlogs that are split"):
        split_here(tmp_path / "out" / "set" / copied.name, tmp_path / "out", SplitOptions(overwrite=True))
    assert (tmp_path / "out" / "set" / "bin.000001").exists()


@pytest.mark.parametrize("parent", ["file", "/proc", "/sys"])
def test_nothing_can_be_written_there(parent: str, copied: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=parent):
        split_here(copied, tmp_path / parent / "out" / "deeper")
    assert nothing_but(tmp_path, "set", "file")


@contextmanager
def small_files() -> Iterator[None]:
    """Limit files to 20 kB, so that writing a larger file fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_the_disk_is_full(copied: Path, tmp_path: Path) -> None:
    with small_files(), pytest.raises(OutputError, match="File too large"):
        split_here(copied, tmp_path / "out")
    assert nothing_but(tmp_path, "set")


def test_a_disk_without_free_inodes(copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No directory can be made any more. The incomplete working directory does not stay."""
    mkdir = os.mkdir

    for number in range(1, 5):
        made: list[str] = []

        def full(
            path: str, *more: object, last: int = number, made: list[str] = made, **named: object
        ) -> None:
            if len(made) == last:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            mkdir(path, *more, **named)  # type: ignore[arg-type]
            made.append(str(path))

        monkeypatch.setattr(os, "mkdir", full)
        with pytest.raises(OutputError, match=r"cannot be written: No space left on device"):
            split_here(copied, tmp_path / "new" / "parts", SplitOptions())
        monkeypatch.undo()
        assert len(made) == number
        assert not list((tmp_path / "new").iterdir())
        (tmp_path / "new").rmdir()


def test_what_is_there_is_replaced_only_when_asked(copied: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = split_here(copied, out)
    assert split_here(copied, out).manifest == first.manifest  # the job is done already
    one = copied.with_name("bin.000001")
    with pytest.raises(OutputError, match="--overwrite"):
        split_here(one, out)
    assert Manifest.load(out) == first.manifest
    again = split_here(one, out, SplitOptions(overwrite=True))
    assert again.set("shop").transactions < first.set("shop").transactions
    check_parts(one, again)
    assert nothing_but(tmp_path, "set", "out")


def test_another_split_begins_between_the_two_renames(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old output is then in the working directory, where a killed split would leave it."""
    out = tmp_path / "out"
    split_here(copied.with_name("bin.000001"), out)
    rename = os.rename

    def rename_and_split(old: Path, new: Path) -> None:
        rename(old, new)
        if old == out:
            with pytest.raises(OutputError, match="another split is writing to it"):
                split_here(copied, out)

    monkeypatch.setattr(os, "rename", rename_and_split)
    split_here(copied, out, SplitOptions(overwrite=True))
    check_parts(copied, split_here(copied, out))
    assert nothing_but(tmp_path, "set", "out")


def test_a_path_that_is_not_utf_8(copied: Path, tmp_path: Path) -> None:
    index = copied.parent.rename(tmp_path / os.fsdecode(b"caf\xe9")) / copied.name
    check_parts(index, split_here(index, tmp_path / "out", SMALL))
    file = index.with_name("bin.000001").rename(index.parent / os.fsdecode(b"caf\xe9.000001"))
    made = split_here(file, tmp_path / "file", SMALL)
    check_parts(file, made)
    (part, *_) = made.manifest.binlogs[0].parts
    assert part.source_start.file == made.manifest.source[0].name


def test_what_is_no_split_is_never_replaced(copied: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    split_here(copied, out)  # an empty directory may be replaced
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").write_text("data")
    for options in (SplitOptions(), SplitOptions(overwrite=True)):
        with pytest.raises(OutputError, match="no split wrote"):
            split_here(copied, other, options)
    assert nothing_but(other, "precious")


def _named(**rules: str) -> Specification:
    return Specification(tuple(NamedBinlog(name=name, rules=(rule,)) for name, rule in rules.items()))


def _spanning() -> bytes:
    """Two transactions of one schema, then one over two schemas, all with a large body."""
    dialect = DIALECTS[0]
    builder = _Builder(dialect)
    builder.add(T.PREVIOUS_GTIDS, bytes(8))
    for number, schemas in enumerate([["shop"], ["logs"], ["shop", "logs"]], 1):
        builder.add(T.GTID, b"\1" + bytes(15) + b"\1" + number.to_bytes(8, "little") + b"\2" + bytes(16))
        builder.boundary()
        builder.add(T.QUERY, query_body(b"BEGIN"))
        for table, schema in enumerate(schemas, 1):
            builder.add(T.TABLE_MAP, table_map_body(table, schema, "orders"))
            rows = rows_body(dialect, T.WRITE_ROWS, table, ends=True, rows=bytes(2000))
            builder.add(T.WRITE_ROWS, rows)
        builder.add(T.XID, bytes(8))
    return bytes(builder.data)


@pytest.mark.parametrize("block_size", [64, 3000, 1 << 20])
def test_a_spanning_transaction_is_refused(block_size: int, tmp_path: Path) -> None:
    source = tmp_path / "made.000001"
    source.write_bytes(_spanning())
    events = list(iter_events(open(source, "rb"), file=source.name))  # noqa: SIM115
    third = [event.offset for event in events if event.type == EventType.GTID][2]
    parts = _named(a="--replicate-do-db=shop", b="--replicate-do-db=logs")
    refuse = SplitOptions(specification=parts, spanning="refuse", block_size=block_size)
    with pytest.raises(TransactionSpans, match="belongs in part to a, b") as caught:
        split_here(source, tmp_path / "out", refuse)
    assert (caught.value.file, caught.value.position) == ("made.000001", third)
    assert nothing_but(tmp_path, "made.000001")
    # Without STMT_END_F to move, each output receives the whole transaction.
    both = _named(a="--replicate-do-db=shop", b="--replicate-wild-do-table=%.orders")
    split_here(source, tmp_path / "refused", SplitOptions(specification=_named(a="--replicate-do-db=shop")))
    with pytest.raises(TransactionSpans):
        split_here(source, tmp_path / "out", SplitOptions(specification=both, spanning="refuse"))
    same = _named(a="--replicate-wild-do-table=%.o%", b="--replicate-wild-do-table=%.orders")
    options = SplitOptions(specification=same, spanning="refuse", block_size=block_size)
    made = split_here(source, tmp_path / "same", options)
    assert made.set("a").transactions == made.set("b").transactions == 3
    assert made.manifest.cut_transactions == 0


def test_named_binlogs_with_nothing_in_them_exist(tmp_path: Path) -> None:
    source = tmp_path / "made.000001"
    source.write_bytes(_spanning())
    parts = _named(none="--replicate-do-db=nothing", all="--replicate-ignore-db=nothing")
    made = split_here(source, tmp_path / "out", SplitOptions(specification=parts))
    (part,) = made.manifest.binlog("none").parts
    assert (part.events, part.transactions, part.previous_gtids) == (0, 0, "")
    kinds = [event.type for event in iter_events(open(tmp_path / "out" / part.name, "rb"), file=part.name)]  # noqa: SIM115
    assert kinds == [EventType.FORMAT_DESCRIPTION, EventType.PREVIOUS_GTIDS]
    assert made.manifest.unassigned_transactions == 0


def test_transactions_without_an_output_are_counted(tmp_path: Path) -> None:
    source = tmp_path / "made.000001"
    source.write_bytes(_spanning())
    parts = _named(shop="--replicate-do-db=shop")
    made = split_here(source, tmp_path / "out", SplitOptions(specification=parts))
    assert made.manifest.unassigned_transactions == 1
    assert made.warnings == [
        "transactions in no binlog, since none of the specification takes them; a [rest] would: 1"
    ]


def test_a_source_without_transactions(tmp_path: Path) -> None:
    builder = _Builder(DIALECTS[0])
    builder.add(T.PREVIOUS_GTIDS, bytes(8))
    builder.add(T.ROTATE, encode_rotate(Rotate("made.000002", 4)))
    source = tmp_path / "made.000001"
    source.write_bytes(bytes(builder.data))
    assert split_here(source, tmp_path / "schemas").sets == []
    parts = Specification(
        (NamedBinlog(name="a", semantics=FilterSemantics.EFFECTIVE, rules=("--do=a.%",)),), "rest"
    )
    made = split_here(source, tmp_path / "parts", SplitOptions(specification=parts))
    assert [(one.name, one.events, len(one.files)) for one in made.sets] == [("a", 0, 1), ("rest", 0, 1)]


def test_the_ends_of_unknown_xa_transactions(tmp_path: Path) -> None:
    """In every schema's binlog, and in every named one; and that is told."""
    data = (ORACLE / "mariadb-row" / "bin.000002").read_bytes()
    whole = walk(ORACLE / "mariadb-row" / "bin.000002")
    at = data.rfind(b"X'786131'")
    source = tmp_path / "bin.000002"
    source.write_bytes(data[:at] + b"X'786132'" + data[at + 9 :])
    parts = _named(a="--replicate-do-db=nothing", b="--replicate-do-db=shop")
    for name, specification, wanted in (("schemas", None, set(whole.changes)), ("parts", parts, {"a", "b"})):
        options = SplitOptions(verify=False)
        if specification is not None:
            options = SplitOptions(verify=False, specification=specification)
        made = split_here(source, tmp_path / name, options)
        assert {one.name for one in made.sets if b"XA COMMIT" in one.files[0].read_bytes()} == wanted
        assert "1 XA transaction ends here without having begun here" in made.warnings[0]


def test_the_times_of_a_file_whose_clock_went_back(tmp_path: Path) -> None:
    """They are the smallest and the largest time of its transactions, whatever the ranges."""
    data = bytearray((ORACLE / "mysql-row" / "bin.000001").read_bytes())
    at = 4 + int.from_bytes(data[13:17], "little")
    while at < len(data):
        data[at : at + 4] = (1_700_000_000 - at).to_bytes(4, "little")
        at += int.from_bytes(data[at + 9 : at + 13], "little")
    source = tmp_path / "bin.000001"
    source.write_bytes(data)
    times = [
        [
            (part.first_time, part.last_time)
            for one in split_here(source, tmp_path / name, options).manifest.binlogs
            for part in one.parts
        ]
        for name, options in (
            ("many", SMALL.model_copy(update={"verify": False})),
            ("one", SplitOptions(verify=False)),
        )
    ]
    assert times[0] == times[1]
