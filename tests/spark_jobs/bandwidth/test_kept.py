"""Measurements that a file keeps: figures made from them are those of a job that reads the binlogs."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogTruncated
from dumpfilter.binlog.events import FLAGS_OFFSET, LOG_EVENT_BINLOG_IN_USE_F
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.spark_jobs.bandwidth import kept as module
from dumpfilter.spark_jobs.bandwidth.job import bandwidth, evaluate_slaves, measure_and_evaluate
from dumpfilter.spark_jobs.bandwidth.kept import MEASUREMENTS, read_measurements, write_measurements
from dumpfilter.spark_jobs.bandwidth.measured_set import MeasuredSet, measure_set
from dumpfilter.spark_jobs.bandwidth.results import Results, SlaveFigures
from dumpfilter.spark_jobs.engines import run_here
from dumpfilter.spark_jobs.options import BandwidthOptions
from dumpfilter.topology.slaves_file import SlaveDefinition
from tests.spark_jobs.walking import RECORDINGS
from tests.strategies import MadeBinlog, binlogs, rules
from tests.support import binlogs_in

OPTIONS = BandwidthOptions(range_size=9000, block_size=5000, bucket_seconds=1)
SHOP = SlaveDefinition("shop", ("--replicate-do-db=shop",), FilterSemantics.CLASSIC, 0)
MYSQL, COMPRESSED = "oracle/mysql-row", "recordings/mysql-payloads"
PLAIN = "recordings/mysql56-row"
"""A recording of three files without XA transactions."""


def slave(name: str, *rules: str, origin: OriginFilter | None = None) -> SlaveDefinition:
    return SlaveDefinition(name, rules, FilterSemantics.CLASSIC, 0, origin=origin)


def refuse(*_: object, **__: object) -> list[object]:
    """Fail in place of running tasks that read binlogs."""
    raise AssertionError("the binlogs are read")


def exact(results: Results, *, estimates: bool = True) -> Results:
    """Return the results without the time of the run, and without estimates of compression unless they are wanted."""
    blank: dict[str, object] = {"month": None}
    if not estimates:
        blank |= {"compressed": 0, "compressed_no_filter": 0}
    return results.model_copy(
        update={
            "slaves": tuple(without_estimates(one, blank, estimates=estimates) for one in results.slaves),
            "measured_at": 0,
            "totals": None,
            "remarks": (),
        }
    )


def without_estimates(one: SlaveFigures, blank: dict[str, object], *, estimates: bool) -> SlaveFigures:
    """Return a slave's figures without the blank ones and, unless they are wanted, without estimates for replicas."""
    real = one.real_replica
    if real is not None and not estimates:
        real = real.model_copy(update={"compressed": 0, "compressed_from_source": 0})
    return one.model_copy(update={**blank, "real_replica": real})


def written_and_read(measured: MeasuredSet) -> MeasuredSet:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / MEASUREMENTS
        write_measurements(measured, path)
        found = read_measurements(path)
    assert found is not None
    return found


@functools.cache
def kept(name: str) -> MeasuredSet:
    """Return the measurements of a recording for one slave, as a later run reads them."""
    return written_and_read(measure_and_evaluate(RECORDINGS[name], [SHOP], run_here, OPTIONS)[1])


def as_slaves(given_rules: list[list[object]]) -> list[SlaveDefinition]:
    return [
        slave(f"s{k}", *(f"--{rule.kind.value}={rule.value}" for rule in some))  # type: ignore[attr-defined]
        for k, some in enumerate(given_rules)
    ]


ORIGINS = st.none() | st.builds(
    OriginFilter, st.frozensets(st.integers(1, 12), max_size=2), own_server_id=st.integers(0, 12)
)


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(sorted(RECORDINGS)),
    given_rules=st.lists(rules(), min_size=1, max_size=3),
    origin=ORIGINS,
)
def test_other_filters_have_the_figures_of_a_fresh_run(
    name: str, given_rules: list[list[object]], origin: OriginFilter | None
) -> None:
    slaves = [replace(one, origin=origin) for one in as_slaves(given_rules)]
    found, measured = measure_and_evaluate(RECORDINGS[name], slaves, run_here, OPTIONS, kept(name))
    assert measured.reused or kept(name).tallied.given_only
    assert exact(found) == exact(bandwidth(RECORDINGS[name], slaves, run_here, OPTIONS))


@settings(max_examples=15, deadline=None)
@given(
    made=binlogs(),
    first=st.lists(rules(), min_size=1, max_size=2),
    then=st.lists(rules(), min_size=1, max_size=2),
    units=st.sampled_from([0, 4_000_000]),
)
def test_made(made: MadeBinlog, first: list[list[object]], then: list[list[object]], units: int) -> None:
    options = OPTIONS.model_copy(update={"most_units": units, "block_size": 700})
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "made.000001"
        source.write_bytes(made.data)
        fresh, measured = measure_and_evaluate(source, as_slaves(first), run_here, options)
        measured = written_and_read(measured)
        again = evaluate_slaves(measured, as_slaves(first))
        assert exact(again) == exact(fresh)
        found, _ = measure_and_evaluate(source, as_slaves(then), run_here, options, measured)
        assert exact(found) == exact(bandwidth(source, as_slaves(then), run_here, options))


def test_the_subjects_of_a_purged_file_are_forgotten() -> None:
    """Warnings are about the tables and statements of the files that are left, and so is that nothing passes."""
    files = binlogs_in(RECORDINGS["recordings/mariadb-forms4"].parent)
    slaves = [slave("d1", "--replicate-do-db=d1"), slave("none", "--replicate-do-table=shop.orders")]
    before, measured = measure_and_evaluate(files, slaves, run_here, OPTIONS)
    found, again = measure_and_evaluate(files[1:], slaves, run_here, OPTIONS, written_and_read(measured))
    assert again.reused
    assert before.warnings
    assert exact(found) == exact(bandwidth(files[1:], slaves, run_here, OPTIONS))


def test_the_same_command_reads_no_binlog() -> None:
    changed = measure_set(RECORDINGS[MYSQL], [SHOP], refuse, OPTIONS, kept(MYSQL))  # type: ignore[arg-type]
    assert changed.measured_at == kept(MYSQL).measured_at
    results = evaluate_slaves(changed, [SHOP])
    assert exact(results) == exact(bandwidth(RECORDINGS[MYSQL], [SHOP], run_here, OPTIONS))


def test_compressed_transactions_hold_for_the_measured_filters_only() -> None:
    """Slaves with some of the measured filters need no reading. Any other filter does."""
    two = [SHOP, slave("hr", "--replicate-do-db=hr")]
    found = written_and_read(measure_and_evaluate(RECORDINGS[COMPRESSED], two, run_here, OPTIONS)[1])
    assert found.tallied.given_only
    for again in (two, two[::-1], two[1:], [replace(two[1], name="new"), slave("all")]):
        results, measured = measure_and_evaluate(RECORDINGS[COMPRESSED], again, refuse, OPTIONS, found)  # type: ignore[arg-type]
        assert measured.reused == len(measured.files)
        assert exact(results) == exact(bandwidth(RECORDINGS[COMPRESSED], again, run_here, OPTIONS))
    other = slave("other", "--replicate-do-db=shop", "--replicate-do-db=nowhere")
    with pytest.raises(ValueError, match="other filters"):
        evaluate_slaves(found, [other])
    with pytest.raises(AssertionError, match="are read"):
        measure_set(RECORDINGS[COMPRESSED], [other], refuse, OPTIONS, found)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [MYSQL, COMPRESSED])
def test_longer_buckets_need_no_reading(name: str) -> None:
    options = OPTIONS.model_copy(update={"bucket_seconds": 3})
    changed = measure_set(RECORDINGS[name], [SHOP], refuse, options, kept(name))  # type: ignore[arg-type]
    results = evaluate_slaves(changed, [SHOP])
    assert exact(results) == exact(bandwidth(RECORDINGS[name], [SHOP], run_here, options))


def test_shorter_buckets_and_other_options_are_measured_again() -> None:
    def is_read(options: BandwidthOptions) -> bool:
        try:
            measure_set(RECORDINGS[MYSQL], [SHOP], refuse, options, coarse)  # type: ignore[arg-type]
        except AssertionError:
            return True
        return False

    coarse = measure_set(
        RECORDINGS[MYSQL], [SHOP], run_here, OPTIONS.model_copy(update={"bucket_seconds": 60})
    )
    assert not is_read(OPTIONS.model_copy(update={"bucket_seconds": 60}))
    assert is_read(OPTIONS.model_copy(update={"bucket_seconds": 30}))
    assert is_read(OPTIONS.model_copy(update={"bucket_seconds": 90}))
    assert is_read(OPTIONS.model_copy(update={"bucket_seconds": 60, "verify": False}))
    assert is_read(OPTIONS.model_copy(update={"bucket_seconds": 60, "range_size": 8000}))


class Folder:
    """A copy of a recording, which a test lets grow."""

    def __init__(self, name: str, folder: Path) -> None:
        self._source = BinlogSet.open(RECORDINGS[name])
        self.names = list(self._source.names)
        self.folder = folder
        for one in self.names:
            shutil.copy2(self._source.path(one), folder / one)

    def files(self, first: int, end: int) -> list[Path]:
        return [self.folder / one for one in self.names[first:end]]


def in_use(data: bytes) -> bytes:
    """Return a binlog's bytes with the flag of a file that a server writes. Such a file may end anywhere."""
    return (
        data[:FLAGS_OFFSET]
        + bytes([data[FLAGS_OFFSET] | LOG_EVENT_BINLOG_IN_USE_F])
        + data[FLAGS_OFFSET + 1 :]
    )


def read_by(
    source: list[Path], measured: MeasuredSet, options: BandwidthOptions
) -> tuple[list[str], Results]:
    """Return the files that a second run reads, and its results, which are those of a fresh run."""
    read: list[str] = []

    def spied(function, tasks, label, **_):  # type: ignore[no-untyped-def]
        if label == "indexing":
            read.extend(Path(part.path).name for part in tasks)
        return run_here(function, tasks, label)

    results, again = measure_and_evaluate(source, [SHOP], spied, options, measured)
    fresh = bandwidth(source, [SHOP], run_here, options)
    assert exact(results, estimates=False) == exact(fresh, estimates=False)
    stored = evaluate_slaves(written_and_read(again), [SHOP])
    assert exact(stored) == exact(results)
    return read, results


def test_only_new_and_changed_files_are_read(tmp_path: Path) -> None:
    folder = Folder(PLAIN, tmp_path)
    options = BandwidthOptions()
    _, measured = measure_and_evaluate(folder.files(0, 2), [SHOP], run_here, options)
    assert read_by(folder.files(0, 2), measured, options)[0] == []
    # The file that was the last one may end in an unfinished transaction, so it is read again.
    assert read_by(folder.files(0, 3), measured, options)[0] == folder.names[1:3]
    assert read_by(folder.files(1, 2), measured, options)[0] == []
    os.utime(folder.folder / folder.names[0], (1, 1))
    assert read_by(folder.files(0, 2), measured, options)[0] == folder.names[:1]


def test_a_file_that_grows_is_read_again(tmp_path: Path) -> None:
    folder = Folder(PLAIN, tmp_path)
    last = folder.folder / folder.names[1]
    whole = last.read_bytes()
    last.write_bytes(in_use(whole[: len(whole) // 2]))
    before, measured = measure_and_evaluate(folder.files(0, 2), [SHOP], run_here, BandwidthOptions())
    last.write_bytes(whole)
    read, after = read_by(folder.files(0, 2), measured, BandwidthOptions())
    assert read == folder.names[1:2]
    assert after.slaves[0].no_filter.bytes > before.slaves[0].no_filter.bytes


def test_xa_transactions_reach_across_files(tmp_path: Path) -> None:
    """A file with XA COMMIT needs the files before it, so all files are read again."""
    folder = Folder(MYSQL, tmp_path)
    _, measured = measure_and_evaluate(folder.files(0, 2), [SHOP], run_here, BandwidthOptions())
    read, _ = read_by(folder.files(0, 3), measured, BandwidthOptions())
    assert set(folder.names) <= set(read)


def test_a_new_file_with_xa_transactions_needs_all_files(tmp_path: Path) -> None:
    """The kept files have no XA COMMIT. Only the new one tells that the whole set must be followed."""
    folder = Folder(MYSQL, tmp_path)
    without = [*folder.files(0, 1), *folder.files(2, 3)]
    options = OPTIONS.model_copy(update={"range_size": 500})
    _, measured = measure_and_evaluate(without, [SHOP], run_here, options)
    assert not measured.indexed.has_xa
    read, _ = read_by(folder.files(0, 3), measured, options)
    assert set(folder.names) <= set(read)


def test_folded_measurements_are_not_joined_with_those_of_new_files(tmp_path: Path) -> None:
    """Counts that one filter treats alike are no counts for another filter."""
    folder = Folder(PLAIN, tmp_path)
    options = BandwidthOptions(most_units=0)
    _, measured = measure_and_evaluate(folder.files(0, 2), [SHOP], run_here, options)
    assert measured.tallied.given_only
    other = [slave("hr", "--replicate-do-db=hr")]
    results, _ = measure_and_evaluate(folder.files(0, 3), other, run_here, options, measured)
    fresh = bandwidth(folder.files(0, 3), other, run_here, options)
    assert exact(results, estimates=False) == exact(fresh, estimates=False)


def test_an_unfinished_file_that_is_no_longer_the_last_is_an_error_again(tmp_path: Path) -> None:
    folder = Folder(PLAIN, tmp_path)
    first = folder.folder / folder.names[0]
    first.write_bytes(in_use(first.read_bytes()[:-7]))
    _, measured = measure_and_evaluate(folder.files(0, 1), [SHOP], run_here, BandwidthOptions())
    with pytest.raises(BinlogTruncated):
        measure_and_evaluate(folder.files(0, 2), [SHOP], run_here, BandwidthOptions(), measured)


def test_a_damaged_file_is_no_measurement(tmp_path: Path) -> None:
    path = tmp_path / MEASUREMENTS
    assert read_measurements(path) is None
    write_measurements(kept(MYSQL), path)
    data = path.read_bytes()
    for end in range(0, len(data), 211):
        path.write_bytes(data[:end])
        assert read_measurements(path) is None
    for at in range(50, len(data), 97):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :])
        found = read_measurements(path)
        if found is not None:
            assert exact(evaluate_slaves(found, [SHOP])) == exact(evaluate_slaves(kept(MYSQL), [SHOP]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"subjects": ()},
        {"origins": ()},
        {"files": ()},
        {"bucket_seconds": 0},
        {"conditions": {"required": [], "start": [0], "member": []}},
        {"conditions": {"required": [1 << 40], "start": [0], "member": []}},
    ],
    ids=["subjects", "origins", "files", "bucket_seconds", "no conditions", "a large number"],
)
def test_numbers_that_name_nothing_are_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, object]
) -> None:
    """The file's digest is right."""
    path, whole = tmp_path / MEASUREMENTS, kept(MYSQL)
    dump = module._HEAD.dump_python
    changed = SimpleNamespace(dump_python=lambda head: {**dump(head), **wrong})
    with monkeypatch.context() as patched:
        patched.setattr(module, "_HEAD", changed)
        write_measurements(whole, path)
    assert read_measurements(path) is None


def test_measurements_of_another_release_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / MEASUREMENTS
    write_measurements(kept(MYSQL), path)
    monkeypatch.setattr("dumpfilter.spark_jobs.bandwidth.kept.__version__", "99")
    assert read_measurements(path) is None
