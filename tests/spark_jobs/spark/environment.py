"""A packed environment for a cluster's workers, as docs/cluster.md makes it, without pip and a registry."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import dumpfilter

_NOT_PACKED = ("pyspark", "py4j", "__editable__*")


def pack(folder: Path) -> Path:
    """Return an archive with this environment's packages, and with dumpfilter as pip installs it from a checkout."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    # In a checkout master, slave and spark_jobs are links, which pip makes folders of.
    checkout = Path(dumpfilter.__path__[0]).parent
    for name in ("dumpfilter", "pyspark_binlog"):
        shutil.copytree(checkout / name, packages / name, ignore=shutil.ignore_patterns("*.pyc"))
    others = packages.relative_to(environment)
    subprocess.run(
        [environment / "bin" / "python", "-m", "dumpfilter.warm_up"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(sys.prefix / others)},
        check=True,
    )
    archive = folder / "environment.tar.gz"
    excluded = [f"--exclude={name}" for name in _NOT_PACKED]
    tar = ["tar", "-c", *excluded, "-C", environment, ".", "-C", sys.prefix, others]
    with archive.open("wb") as file, subprocess.Popen(tar, stdout=subprocess.PIPE) as packed:
        subprocess.run(["gzip", "-1"], stdin=packed.stdout, stdout=file, check=True)
    return archive
