"""A packed environment for a cluster's workers, as docs/cluster.md makes it, without pip and downloads."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from importlib.metadata import PackagePath, distribution
from pathlib import Path

from packaging.requirements import Requirement

import dumpfilter

_WORKERS_OWN = {"pyspark", "py4j"}
"""Packages that are part of the workers' Spark."""

_COMPILER = {"numba", "setuptools"}
"""Packages that compiled kernels do not need."""

_LARGE = 1 << 20
"""The size from which the archive has a link instead of the file, bytes."""


def pack(folder: Path) -> Path:
    """Return an archive with dumpfilter as pip installs it from a checkout, and with the packages that it requires."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    # In a checkout master, slave and spark_jobs are links, which pip makes folders of.
    checkout = Path(dumpfilter.__path__[0]).parent
    for name in ("dumpfilter", "pyspark_binlog"):
        shutil.copytree(checkout / name, packages / name, ignore=shutil.ignore_patterns("*.pyc"))
    others = packages.relative_to(environment)
    subprocess.run(
        [environment / "bin" / "python", "-m", "dumpfilter.compile"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(sys.prefix / others)},
        check=True,
    )
    archive = folder / "environment.tar.gz"
    # The archive is read on this machine only, and each level of compression takes seconds.
    with gzip.open(archive, "wb", compresslevel=0) as file, tarfile.open(fileobj=file, mode="w|") as tar:
        tar.add(environment, ".")
        for path in _required_files():
            _add(tar, str(path.locate()), str(others / path))
    return archive


def _add(tar: tarfile.TarFile, file: str, name: str) -> None:
    """Add a file under ``name``, and a large one as a link to it.

    Each executor unpacks the archive, and three quarters of its bytes are the packages' shared libraries.
    """
    if os.path.getsize(file) < _LARGE:
        tar.add(file, name)
        return
    link = tarfile.TarInfo(name)
    link.type = tarfile.SYMTYPE
    link.linkname = file
    tar.addfile(link)


def _required_files() -> list[PackagePath]:
    """Return the files of the packages that ``pip install '.[spark]'`` installs beside dumpfilter."""
    missing = _names(distribution("dumpfilter").requires or [], extra="spark") - _COMPILER
    found: list[PackagePath] = []
    known: set[str] = set()
    while missing := missing - known - _WORKERS_OWN:
        known |= missing
        packages = [distribution(name) for name in missing]
        found += [path for package in packages for path in package.files or []]
        missing = _names(requirement for package in packages for requirement in package.requires or [])
    # Scripts lie outside the directory of packages. The jobs import no package's own tests.
    return [path for path in found if path.parts[0] != ".." and "tests" not in path.parts]


def _names(requirements: Iterable[str], extra: str = "") -> set[str]:
    """Return the names of the packages that the requirements ask for on this machine, with an extra."""
    parsed = map(Requirement, requirements)
    return {one.name for one in parsed if one.marker is None or one.marker.evaluate({"extra": extra})}
