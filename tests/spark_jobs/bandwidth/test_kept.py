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

from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.spark_jobs.bandwidth import kept as module
from dumpfilter.spark_jobs.bandwidth.job import evaluate_slaves, measure_and_evaluate
from dumpfilter.spark_jobs.bandwidth.kept import MEASUREMENTS, read_measurements, write_measurements
from dumpfilter.spark_jobs.bandwidth.measured_set import MeasuredSet, measure_set
from dumpfilter.spark_jobs.bandwidth.results import Results, SlaveFigures
from dumpfilter.spark_jobs.options import BandwidthOptions
from dumpfilter.topology.slaves_file import SlaveDefinition
from tests.spark_jobs.here import bandwidth, run_here
from tests.spark_jobs.walking import RECORDINGS
from tests.strategies import MadeBinlog, binlogs, rules

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
    assert measured is kept(name) or kept(name).measured.tallied.given_only
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


def test_the_same_command_reads_no_binlog() -> None:
    changed = measure_set(RECORDINGS[MYSQL], [SHOP], refuse, OPTIONS, kept(MYSQL))  # type: ignore[arg-type]
    assert changed is kept(MYSQL)
    results = evaluate_slaves(changed, [SHOP])
    assert exact(results) == exact(bandwidth(RECORDINGS[MYSQL], [SHOP], run_here, OPTIONS))


def test_compressed_transactions_hold_for_the_measured_filters_only() -> None:
    """Slaves with the measured filters, in the same order, need no reading. Any other filter does."""
    two = [SHOP, slave("hr", "--replicate-do-db=hr")]
    found = written_and_read(measure_and_evaluate(RECORDINGS[COMPRESSED], two, run_here, OPTIONS)[1])
    assert found.measured.tallied.given_only
    for again in (two, [SHOP, replace(two[1], name="new")]):
        results, measured = measure_and_evaluate(RECORDINGS[COMPRESSED], again, refuse, OPTIONS, found)  # type: ignore[arg-type]
        assert measured is found
        assert exact(results) == exact(bandwidth(RECORDINGS[COMPRESSED], again, run_here, OPTIONS))
    for other in (
        two[::-1],
        two[1:],
        [slave("other", "--replicate-do-db=shop", "--replicate-do-db=nowhere")],
    ):
        with pytest.raises(AssertionError, match="are read"):
            measure_set(RECORDINGS[COMPRESSED], other, refuse, OPTIONS, found)  # type: ignore[arg-type]


def test_other_options_are_measured_again() -> None:
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
    assert is_read(OPTIONS.model_copy(update={"bucket_seconds": 120}))
    assert is_read(OPTIONS.model_copy(update={"bucket_seconds": 60, "verify": False}))
    assert is_read(OPTIONS.model_copy(update={"bucket_seconds": 60, "range_size": 8000}))


@pytest.fixture
def folder(tmp_path: Path) -> list[Path]:
    """Return the files of a recording, copied to where a test changes them."""
    source = BinlogSet.open(RECORDINGS[PLAIN])
    return [Path(shutil.copy2(source.path(one), tmp_path / one)) for one in source.names]


def test_other_files_are_measured_again(folder: list[Path]) -> None:
    def is_read(files: list[Path]) -> bool:
        try:
            measure_set(files, [SHOP], refuse, BandwidthOptions(), measured)  # type: ignore[arg-type]
        except AssertionError:
            return True
        return False

    measured = measure_set(folder[:2], [SHOP], run_here, BandwidthOptions())
    assert not is_read(folder[:2])
    assert is_read(folder)
    assert is_read(folder[1:2])
    os.utime(folder[0], (1, 1))
    assert is_read(folder[:2])


def test_a_file_that_cannot_be_opened_is_measured_again(folder: list[Path]) -> None:
    folder[0].write_bytes(b"no binlog")
    options = BandwidthOptions(on_corrupt="skip")
    measured = measure_set(folder, [SHOP], run_here, options)
    assert measure_set(folder, [SHOP], run_here, options, measured) is not measured


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
        {"files": {}},
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
