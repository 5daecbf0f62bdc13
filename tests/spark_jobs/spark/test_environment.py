"""The distributions that are packed, and installations that cannot be packed."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

import pytest

from dumpfilter.errors import OptionError, OutputError
from dumpfilter.spark_jobs.spark.environment import (
    EnvironmentUnusable,
    distribution_files,
    needed_distributions,
    package_environment,
)


def test_dependencies_of_dependencies_are_found_once() -> None:
    names = [found.metadata["Name"].lower() for found in needed_distributions()]
    assert len(names) == len(set(names))
    assert "llvmlite" in names  # numba's
    assert not {"dumpfilter", "pyspark", "py4j", "pytest"} & set(names)


@pytest.mark.parametrize("name", ["environment", "environment.zip", "environment.tar"])
def test_another_kind_of_archive(name: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"has to end in \.tar\.gz"):
        package_environment(tmp_path / name)


def test_a_relative_interpreter(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="a path that starts with /"):
        package_environment(tmp_path / "e.tar.gz", python="python3.11")


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    output = tmp_path / "none" / "e.tar.gz"
    with pytest.raises(OutputError) as caught:
        package_environment(output)
    assert str(caught.value) == f"{output}: No such file or directory"


def installed(site: Path, name: str, files: dict[str, str]) -> importlib.metadata.Distribution:
    """Install a distribution in ``site`` as an installer does."""
    info = site / f"{name}-1.0.dist-info"
    for path, text in {
        f"{info.name}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        **files,
    }.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    return importlib.metadata.PathDistribution(info)


def test_scripts_caches_and_tests_are_left_out(tmp_path: Path) -> None:
    files = [
        "thing/__init__.py",
        "thing/data.txt",
        "thing/tests/test_it.py",
        "thing/__pycache__/__init__.cpython-311.pyc",
        "thing-1.0.dist-info/METADATA",
        "thing-1.0.dist-info/RECORD",
        "thing.libs/libthing.so",
        "../../../bin/thing",
        "thing/gone.py",
    ]
    record = "".join(f"{file},,\n" for file in files)
    site = tmp_path / "lib" / "python" / "site-packages"
    (tmp_path / "bin").mkdir(parents=True)
    (tmp_path / "bin" / "thing").touch()
    thing = installed(
        site,
        "thing",
        {file: "x" for file in files if not file.startswith("..") and file != "thing/gone.py"}
        | {
            "thing-1.0.dist-info/RECORD": record,
            "thing-1.0.dist-info/METADATA": "Name: thing\nVersion: 1.0\n",
        },
    )
    assert [name for name, _ in distribution_files(thing)] == [
        "thing/__init__.py",
        "thing/data.txt",
        "thing-1.0.dist-info/METADATA",
        "thing.libs/libthing.so",
    ]


def test_one_that_does_not_know_its_files(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnusable, match="thing does not know its files"):
        list(distribution_files(installed(tmp_path, "thing", {})))


def test_another_in_editable_mode(tmp_path: Path) -> None:
    files = {
        "thing-1.0.dist-info/RECORD": "thing-1.0.dist-info/METADATA,,\n",
        "thing-1.0.dist-info/direct_url.json": '{"dir_info": {"editable": true}, "url": "file:///src/thing"}',
    }
    with pytest.raises(EnvironmentUnusable, match="thing is installed in editable mode"):
        list(distribution_files(installed(tmp_path, "thing", files)))


def test_what_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(
        tmp_path,
        "dumpfilter",
        {
            "dumpfilter-1.0.dist-info/METADATA": "Name: dumpfilter\nVersion: 1.0\nProvides-Extra: spark\n"
            'Requires-Dist: packaging\nRequires-Dist: nowhere-to-be-found>=1; extra == "spark"\n'
            'Requires-Dist: not-asked-for; extra == "dev"\n'
        },
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(EnvironmentUnusable, match="nowhere-to-be-found is not installed"):
        needed_distributions()


def test_nothing_is_left_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr("dumpfilter.spark_jobs.spark.environment.needed_distributions", list)
    output = tmp_path / "e.tar.gz"
    output.write_bytes(b"the last one")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The archive is larger than this limit. Without the handler a signal would end the process.
    import signal

    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(OutputError, match=f"{output}: File too large"):
            package_environment(output)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert output.read_bytes() == b"the last one"
    assert os.listdir(tmp_path) == ["e.tar.gz"]
