"""The content of the packaged environment. test_cluster_slow.py runs it."""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path

import pytest

from dumpfilter.spark_jobs.spark.daemon import PACKAGE
from dumpfilter.spark_jobs.spark.environment import (
    SITE_PACKAGES,
)


@pytest.fixture(scope="module")
def members(environment: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(environment) as archive:
        return {member.name: member for member in archive}


class TestContents:
    def test_the_interpreter_is_a_link_to_the_one_the_workers_have(
        self, members: dict[str, tarfile.TarInfo]
    ) -> None:
        python = members["bin/python"]
        assert python.issym()
        assert not python.linkname.startswith(sys.prefix + "/")
        assert Path(python.linkname).resolve() == Path(sys.executable).resolve()

    def test_what_jobs_need(self, members: dict[str, tarfile.TarInfo]) -> None:
        below = {name.removeprefix(f"{SITE_PACKAGES}/").split("/")[0] for name in members}
        assert {PACKAGE, "numba", "numpy", "pyarrow", "zstandard"} <= below
        # The archive has dumpfilter's own files, even if dumpfilter is installed in editable mode.
        assert f"{SITE_PACKAGES}/dumpfilter/spark_jobs/spark/daemon.py" in members
        assert f"{SITE_PACKAGES}/pyspark_binlog/__init__.py" in members
        assert not any("__editable__" in name for name in members)

    def test_what_they_do_not(self, members: dict[str, tarfile.TarInfo]) -> None:
        below = {name.removeprefix(f"{SITE_PACKAGES}/").split("/")[0] for name in members}
        assert (
            not {"pyspark", "py4j", "jinja2", "pytest", "_pytest", "mypy", "pip", "ruff", "hypothesis"}
            & below
        )
        assert not any("/tests/" in name or name.endswith(".pyc") for name in members)
        assert not any(name.endswith("direct_url.json") for name in members)

    def test_compiled_kernels_for_all_that_is_compiled(self, members: dict[str, tarfile.TarInfo]) -> None:
        for module in ("index/_scan", "dump/atoms"):
            folder, _, name = module.rpartition("/")
            beginning = f"{SITE_PACKAGES}/{PACKAGE}/{folder}/__pycache__/{name}."
            kinds = {Path(member).suffix for member in members if member.startswith(beginning)}
            assert {".nbi", ".nbc"} <= kinds, module

    def test_owners_are_removed_and_all_may_read(self, members: dict[str, tarfile.TarInfo]) -> None:
        for member in members.values():
            assert (member.uid, member.gid, member.uname) == (0, 0, "")
            assert member.issym() or member.mode & 0o444 == 0o444
            assert member.issym() or member.isreg(), member.name
