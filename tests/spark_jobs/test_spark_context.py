"""Settings of a Spark context, and errors of contexts that cannot start."""

from __future__ import annotations

import re
import socket
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.spark_jobs.java import java_release
from dumpfilter.spark_jobs.options import SparkSettings
from dumpfilter.spark_jobs.spark import (
    TASK_ATTEMPTS,
    SparkMissing,
    SparkUnreachable,
    check_java,
    context_settings,
    driver_address,
    master_with_retries,
    spark_context,
)
from tests.spark_jobs.cluster import spark_home


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Return a port that stays bound but does not listen, so that no other process can listen there."""
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


def test_a_master_that_does_not_answer_is_named(closed_port: int) -> None:
    master = f"spark://127.0.0.1:{closed_port}"
    with pytest.raises(SparkUnreachable, match=f"{master}: Connection refused") as caught:
        driver_address(master)
    assert caught.value.exit_code == 3
    with pytest.raises(SparkUnreachable), spark_context(SparkSettings(master=master)):
        pass


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_host_that_is_no_name(host: str) -> None:
    with pytest.raises(SparkUnreachable, match=f"spark://{re.escape(host)}:7077: .*label"):
        driver_address(f"spark://{host}:7077")


def test_of_several_masters_one_is_enough(listener: socket.socket, closed_port: int) -> None:
    port = listener.getsockname()[1]
    assert driver_address(f"spark://127.0.0.1:{closed_port},127.0.0.1:{port}") == "127.0.0.1"


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":7077", "host:port", "host:0", "host:65536", "host:²"]
)
def test_an_address_without_a_port(address: str) -> None:
    with pytest.raises(OptionError, match="spark://host:port"):
        driver_address(f"spark://{address}")


def test_other_masters_are_sparks_to_judge() -> None:
    assert driver_address("local[2]") is None
    assert driver_address("yarn") is None


def test_a_cluster_finds_the_driver_where_the_driver_found_it(listener: socket.socket) -> None:
    found = context_settings(
        SparkSettings(master=f"spark://127.0.0.1:{listener.getsockname()[1]}", executor_memory=3 << 30)
    )
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert found["spark.executor.memory"] == "3072m"
    assert "spark.archives" not in found


def test_the_drivers_ipv6_address_has_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark requires the brackets for the address that workers use, and not for the one that the driver binds."""
    monkeypatch.setattr("dumpfilter.spark_jobs.spark.driver_address", lambda master: "2001:db8::1")
    found = context_settings(SparkSettings(master="spark://[2001:db8::2]:7077"))
    assert found["spark.driver.host"] == "[2001:db8::1]"
    assert found["spark.driver.bindAddress"] == "2001:db8::1"


def test_the_packaged_environment(listener: socket.socket, tmp_path: Path) -> None:
    master = f"spark://127.0.0.1:{listener.getsockname()[1]}"
    archive = tmp_path / "environment.tar.gz"
    with pytest.raises(OptionError, match=r"no such file; docs/cluster\.md shows how to pack one"):
        context_settings(SparkSettings(master=master, environment=str(archive)))
    archive.touch()
    assert (
        context_settings(SparkSettings(master=master, environment=str(archive)))["spark.archives"]
        == f"{archive}#environment"
    )
    url = "hdfs://name/environment.tar.gz"
    assert (
        context_settings(SparkSettings(master=master, environment=url))["spark.archives"]
        == f"{url}#environment"
    )
    with pytest.raises(OptionError, match="with a local master there are none"):
        context_settings(SparkSettings(master="local[2]", environment=str(archive)))


def test_settings_of_spark_are_passed_on() -> None:
    variable = "spark.executorEnv.AWS_ENDPOINT_URL"
    conf = (f"{variable}=http://127.0.0.1:9000/?a=b", "spark.app.name=mine")
    found = context_settings(SparkSettings(master="local[1]", conf=conf))
    assert (found[variable], found["spark.app.name"]) == ("http://127.0.0.1:9000/?a=b", "mine")
    for text, why in (
        ("spark.speculation", "write spark.NAME=VALUE"),
        ("AWS_REGION=eu", "write spark.NAME=VALUE"),
        ("spark.master=local", "give it with --spark-master"),
    ):
        with pytest.raises(OptionError, match=f"--conf {text}: {why}"):
            context_settings(SparkSettings(master="local[1]", conf=(text,)))


def test_the_cluster_page_starts_what_pip_installs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text()
    blocks = "\n".join(page.split("```")[1::2])
    home = spark_home()
    programs = set(re.findall(r"^(spark-\S+|start-\S+)", blocks, re.M))
    assert programs == {"spark-class", "spark-submit"}
    for program in programs:
        assert (home / "bin" / program).is_file()
    classes = re.findall(r"^spark-class (\S+)", blocks, re.M)
    (jar,) = home.glob("jars/spark-core_*.jar")
    with zipfile.ZipFile(jar) as content:
        names = content.namelist()
    assert len(classes) == 2
    assert {f"{name.replace('.', '/')}.class" for name in classes} <= set(names)


def test_without_java_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkMissing, match="apt-get install default-jre-headless"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkMissing, match=f"JAVA_HOME .{tmp_path}. has no bin/java"):
        check_java()


def test_a_java_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nexec sleep 60\n")
    java.chmod(0o755)
    run = subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda *given, **options: run(*given, **options | {"timeout": 0.1})
    )
    assert java_release(str(java)) is None
