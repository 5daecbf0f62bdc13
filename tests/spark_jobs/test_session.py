"""The Spark context: where it runs, what cannot start, what a worker is forked from, a task that dies."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.errors import OptionError
from dumpfilter.spark_jobs.spark.context import (
    TASK_ATTEMPTS,
    SparkMissing,
    SparkUnreachable,
    check_java,
    master_with_retries,
    reach,
    settings,
    spark_context,
    submitted,
)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def closed_port() -> Iterator[int]:
    """One that stays taken, so that nobody listens there in the meantime."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@given(st.integers(1, 10_000))
def test_a_local_master_tries_tasks_again(cores: int) -> None:
    assert master_with_retries(f"local[{cores}]") == f"local[{cores},{TASK_ATTEMPTS}]"


@pytest.mark.parametrize(
    "master", ["local[2,1]", "local[*,7]", "spark://host:7077", "yarn", "local-cluster[1,1,1024]"]
)
def test_a_master_that_says_it_itself_is_left_alone(master: str) -> None:
    assert master_with_retries(master) == master


def test_a_master_nobody_listens_for_is_named(closed_port: int) -> None:
    master = f"spark://127.0.0.1:{closed_port}"
    with pytest.raises(SparkUnreachable, match=f"{master}: Connection refused") as caught:
        reach(master)
    assert caught.value.exit_code == 3
    with pytest.raises(SparkUnreachable), spark_context(master):
        pass


def test_of_several_masters_one_is_enough(listener: socket.socket, closed_port: int) -> None:
    port = listener.getsockname()[1]
    assert reach(f"spark://127.0.0.1:{closed_port},127.0.0.1:{port}") == "127.0.0.1"


@pytest.mark.parametrize("address", ["", "host", "host:", ":7077", "host:port", "host:0", "host:65536"])
def test_an_address_without_a_port(address: str) -> None:
    with pytest.raises(OptionError, match="spark://host:port"):
        reach(f"spark://{address}")


def test_other_masters_are_sparks_to_judge() -> None:
    assert reach("local[2]") is None
    assert reach("yarn") is None


def test_a_cluster_finds_the_driver_where_the_driver_found_it(listener: socket.socket) -> None:
    found = settings(f"spark://127.0.0.1:{listener.getsockname()[1]}", executor_memory="3g")
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert found["spark.executor.memory"] == "3g"
    assert "spark.archives" not in found


def test_the_packaged_environment(listener: socket.socket, tmp_path: Path) -> None:
    master = f"spark://127.0.0.1:{listener.getsockname()[1]}"
    archive = tmp_path / "environment.tar.gz"
    with pytest.raises(OptionError, match="no such file; dumpfilter package-environment makes one"):
        settings(master, environment=str(archive))
    archive.touch()
    assert settings(master, environment=str(archive))["spark.archives"] == f"{archive}#environment"
    url = "hdfs://name/environment.tar.gz"
    assert settings(master, environment=url)["spark.archives"] == f"{url}#environment"
    with pytest.raises(OptionError, match="with a local master there are none"):
        settings("local[2]", environment=str(archive))


def test_without_java_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkMissing, match="apt-get install default-jre-headless"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkMissing, match=f"JAVA_HOME .{tmp_path}. has no bin/java"):
        check_java()


def test_a_second_context_would_end_the_first(spark: Any) -> None:
    with pytest.raises(SparkMissing, match="has a Spark context already"), spark_context("local[1]"):
        pass
    assert spark.sparkContext.parallelize([1, 2], 1).sum() == 3


def _surroundings(_: int) -> tuple[str, int, bool, bool]:
    """What a worker finds when it starts: its parent's command and threads, and which modules are there already."""
    parent = Path(f"/proc/{os.getppid()}")
    threads = next(
        line for line in (parent / "status").read_text().splitlines() if line.startswith("Threads:")
    )
    from dumpfilter.binlog.rebase import rebase

    compiled = bool(rebase.signatures)
    return (parent / "cmdline").read_text(), int(threads.split()[1]), compiled, submitted()


def test_workers_are_forked_with_the_kernels_from_a_process_with_one_thread(spark: Any) -> None:
    ((command, threads, compiled, under_spark_submit),) = (
        spark.sparkContext.parallelize([0], 1).map(_surroundings).collect()
    )
    assert command.split("\0")[:3] == [sys.executable, "-m", "dumpfilter.spark_jobs.spark.daemon"]
    assert threads == 1
    assert compiled
    assert not under_spark_submit


def test_a_task_that_dies_is_tried_again(spark: Any, tmp_path: Path) -> None:
    attempts = tmp_path / "attempts"

    def dies_at_first(number: int) -> int:
        with attempts.open("a") as log:
            log.write("x")
        if attempts.stat().st_size < TASK_ATTEMPTS:
            os._exit(1)
        return number * 2

    assert spark.sparkContext.parallelize([21], 1).map(dies_at_first).collect() == [42]
    assert attempts.stat().st_size == TASK_ATTEMPTS
