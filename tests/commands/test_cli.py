"""The command as a new user meets it: help with an example, errors of one line, exit codes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from dumpfilter import cli
from dumpfilter.base.errors import DumpfilterError
from tests.commands.in_process import run

ORACLE = Path(__file__).parents[1] / "oracle" / "data" / "oracle"
LONELY_SLAVE = ("slave", "--master", "127.0.0.1:1", "--relay-dir", "{tmp}", "--server-id", "1")


@pytest.mark.parametrize(
    "command",
    [
        "master",
        "slave",
        "split",
        "manifest",
        "purge",
        "inspect",
        "explain",
        "binlog",
        "sql",
        "demo",
        "password-hash",
    ],
)
def test_help_has_an_example(command: str) -> None:
    done = run(command, "--help")
    assert done.returncode == 0
    assert f"dumpfilter {command}" in done.stdout
    assert "Example" in done.stdout


@pytest.mark.parametrize("command", ["inspect", "lint", "suggest", "bandwidth"])
def test_commands_name_the_binlogs_alike(command: str) -> None:
    assert f"{command} [OPTIONS] {{BINLOGS}}...\n" in run(command, "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["inspect", "nowhere.index"], 1, "nowhere.index"),
        (["inspect", "README.md"], 1, "not a binlog"),
        (["inspect", "tests"], 1, "no index file"),
        (["master", "nowhere"], 1, "nowhere"),
        (
            ["master", str(ORACLE / "mysql-row"), "--host", "203.0.113.7", "--insecure"],
            2,
            "cannot listen on 203.0.113.7",
        ),
        (
            ["master", str(ORACLE / "mysql-row"), "--host", "0.0.0.0"],
            2,
            "--host=0.0.0.0: the master would serve other machines without TLS and without a login: give --tls-cert",
        ),
        (
            ["master", str(ORACLE / "mysql-row"), "--tls-require-slave-cert"],
            2,
            "--tls-require-slave-cert needs --tls-ca",
        ),
        ([*LONELY_SLAVE, "--source-ssl", "--source-ssl-cert=c"], 2, "SOURCE_SSL_CERT needs SOURCE_SSL_KEY"),
        ([*LONELY_SLAVE, "--no-source-ssl", "--source-ssl-ca=c"], 2, "--no-source-ssl contradicts"),
        (
            [*LONELY_SLAVE, "--source-ssl", "--source-ssl-verify-server-cert"],
            2,
            "--source-ssl-verify-server-cert needs --source-ssl-ca",
        ),
        ([*LONELY_SLAVE, "--master-ssl-ca={tmp}/none"], 3, "SOURCE_SSL_CA={tmp}/none: cannot be read"),
        (
            [*LONELY_SLAVE, "--retry-count", "1"],
            3,
            "127.0.0.1:1",
        ),
        (
            [*LONELY_SLAVE, "--replicate-do-table", "nodot"],
            2,
            "--replicate-do-table=nodot",
        ),
        (
            [*LONELY_SLAVE, "--replicate-rewrite-db", "a"],
            2,
            "missing '->'",
        ),
        ([*LONELY_SLAVE, "--heartbeat-period=60"], 2, "choose a period below --replica-net-timeout=60"),
        (
            ["inspect", str(ORACLE / "mysql-row"), "--over-time=table", f"--period={2**63}"],
            2,
            f"--period={2**63}: give a number of at most {2**63 - 1}",
        ),
        (
            ["bandwidth", str(ORACLE / "mysql-row"), "--slave=a:", "--driver-memory=lots"],
            2,
            "--driver-memory: 'lots' is not a size: bytes, or with K, M, G or T",
        ),
        (["explain", "--statement=SELECT 1", "--use=\udcff"], 2, r"--use=\xff: the value is not UTF-8"),
        (
            ["export", str(ORACLE / "mysql-row"), "--output", "{tmp}/\udcff"],
            2,
            "bin.000001.parquet: the name is not UTF-8",
        ),
        (["inspect", ""], 2, "the name of a binlog set is empty: name"),
        (["inspect", "msyql://db1/"], 2, "begins with s3a://, hdfs://, file:// or mysql://"),
        (
            ["slave", "--master=127.0.0.1:1", "--relay-dir=README.md", "--server-id=1"],
            1,
            "README.md: cannot be made: File exists",
        ),
        (["demo", "nowhere"], 1, "nowhere"),
    ],
)
def test_wrong_input_is_one_line_and_a_code(
    arguments: list[str], code: int, said: str, tmp_path: Path
) -> None:
    done = run(*(a.format(tmp=tmp_path) for a in arguments))
    assert done.returncode == code, done.stderr
    assert said.format(tmp=tmp_path) in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("dumpfilter: ") or "\ndumpfilter: " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "nosuch"),
        (["slave"], "--relay-dir"),
        (["inspect"], "BINLOGS"),
        (["generate", "sample", "--seed=-1"], "--seed"),
        (["master", "binlogs", f"--max-dumps={2**31}"], "--max-dumps"),
        ([*LONELY_SLAVE, f"--chunk-size={2**32}"], "--chunk-size"),
    ],
)
def test_wrong_usage_is_told_by_the_parser(arguments: list[str], said: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr


def test_output_in_a_narrow_encoding_escapes_what_the_encoding_lacks() -> None:
    rules = "--replicate-do-db=schön"
    done = run("explain", "--statement=SELECT 1", rules, encoding="ascii")
    assert done.returncode == 0, done.stderr
    assert r"rules: --replicate-do-db=sch\xf6n" in done.stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_is_named(unbuffered: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dumpfilter", "--version"],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.stderr, done.returncode) == ("dumpfilter: standard output: No space left on device\n", 1)


def test_a_set_that_cannot_be_generated_whole_is_removed(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with mock.patch("dumpfilter.binlog.workload.encode_rotate", side_effect=full):
        done = run("generate", tmp_path / "sample", "--size=100K", "--file-size=50K")
    assert done.returncode == 1
    assert "binlog.000001: cannot be written: No space left on device" in done.stderr
    assert run("generate", tmp_path / "sample", "--size=10K").returncode == 0


def test_inspect_as_json_agrees_with_the_recording() -> None:
    done = run("inspect", ORACLE / "mysql-row", "--json")
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert found["transactions"] == 74
    assert found["gtids"] == "5a8b8d0a-e543-11f1-9c8d-02fc00000001:1-74"
    assert found["family"] == "mysql"
    assert {"shop", "hr", "logs"} <= set(found["schemas"])
    read = sum(kind["bytes"] for kind in found["events"].values())
    assert read == sum(schema["bytes"] for schema in found["schemas"].values())


def test_inspect_as_tables() -> None:
    done = run("inspect", ORACLE / "mariadb-row" / "bin.index", "--top", "3")
    assert done.returncode == 0
    assert "Events by type" in done.stdout
    assert "Gtid_list" in done.stdout
    assert "more tables" in done.stdout


def test_an_error_cannot_command_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A master's error text may come from a stranger.
    def app(**_: object) -> None:
        raise DumpfilterError("master 10.0.0.1: bad \x1b]0;title\x07\x9b2J")

    monkeypatch.setattr(cli, "app", app)
    with pytest.raises(SystemExit):
        cli.main()
    assert capsys.readouterr().err == "dumpfilter: master 10.0.0.1: bad \\x1b]0;title\\x07\\x9b2J\n"
