"""The check for system packages, with the packages of several distributions."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tools import system_packages
from tools.system_packages import main, needs, python_problem


def test_the_oldest_tried_java_is_not_the_first() -> None:
    java = next(need for need in needs("demo") if need.title.startswith("Java"))
    releases = "openjdk-21-jre-headless | openjdk-17-jre-headless | openjdk-25-jre-headless"
    assert java.packages == f"{releases} | default-jre-headless"


def test_the_demonstration_needs_the_programs_of_a_server(programs: Callable[..., None]) -> None:
    def missing() -> list[str]:
        return [need.packages.partition(" ")[0] for need in needs("demo") if not need.is_there]

    programs(java="echo 'openjdk version \"21.0.2\"' >&2")
    assert missing() == ["mariadb-server-core", "mariadb-server-core", "mariadb-client-core"]
    programs(mariadbd="", mariadb_install_db="")
    assert missing() == ["mariadb-client-core"]


def test_the_demonstration_leaves_mysql_in_its_place(programs: Callable[..., None]) -> None:
    """Debian's packages of MariaDB would remove those of MySQL."""
    programs(java="echo 'openjdk version \"21.0.2\"' >&2", mysqld="")
    assert not [need.title for need in needs("demo") if not need.is_there]


def test_the_quick_tests_need_python_and_a_compiler_alone() -> None:
    titles = [need.title for need in needs("python")]
    assert titles == ["Python's module venv", "a C compiler", "C's header files", "Python's header files"]


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 4), (3, 13), (3, 14, 10)])
def test_supported_pythons(version: tuple[int, ...]) -> None:
    assert not python_problem(version)


@pytest.mark.parametrize("version", [(2, 7), (3, 10, 12), (3, 15)])
def test_other_pythons_are_refused_with_the_cure(version: tuple[int, ...]) -> None:
    assert "make PYTHON=" in python_problem(version)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes shell scripts and puts their directory alone on a plain user's PATH."""

    def make(**texts: str) -> None:
        for name, text in texts.items():
            script = tmp_path / name.replace("_", "-")
            script.write_text(f"#!/bin/sh\n{text}\n")
            script.chmod(0o755)

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(system_packages, "_SBIN", "")
    make(cc="")
    return make


def test_a_c_compiler_is_needed(
    programs: Callable[..., None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cc").unlink()
    programs(apt_get="exit 9")
    assert (main("python") or "").endswith("  apt-get update\n  apt-get satisfy 'gcc'")
    assert capsys.readouterr().err == "missing: a C compiler\n"


def test_a_plain_user_is_told_exactly_what_to_install(
    programs: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    programs(apt_get="exit 9")
    said = main("demo") or ""
    assert "missing: Java 17 or later\n" in capsys.readouterr().err
    assert "  apt-get update\n  apt-get satisfy 'openjdk-21-jre-headless | openjdk-17" in said
    assert said.endswith(", mariadb-server-core | mariadb-server, mariadb-client-core | mariadb-client'")


def test_an_old_java_is_not_enough(programs: Callable[..., None]) -> None:
    programs(apt_get="exit 9", java="echo 'openjdk version \"11.0.2\"' >&2")
    assert "| default-jre-headless" in (main("demo") or "")


def test_what_apt_did_not_install_is_told(
    programs: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cc").unlink()
    programs(apt_get="exit 9")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "see above" in (main("python") or "")
