"""The search for MariaDB's programs, with scripts in their place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dumpfilter.demo import mariadb
from dumpfilter.demo.mariadb import MariaDbMissing, find_programs

OURS = "mariadbd  Ver 10.5.29-MariaDB-0+deb11u1 for debian-linux-gnu on x86_64 (Debian 11)"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes scripts which print a text, and leave a machine with these programs alone."""

    def make(**texts: str) -> None:
        for name, text in texts.items():
            script = tmp_path / name.replace("_", "-")
            script.write_text(f"#!/bin/sh\necho '{text}'\n")
            script.chmod(0o755)

    monkeypatch.setattr(mariadb, "_SBIN", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    return make


def test_programs_are_found(programs: Callable[..., None], tmp_path: Path) -> None:
    programs(mariadbd=OURS, mariadb_install_db="")
    found = find_programs()
    assert (found.server, found.install) == (str(tmp_path / "mariadbd"), str(tmp_path / "mariadb-install-db"))
    assert found.version == "10.5.29"


@pytest.mark.parametrize(
    ("present", "told"),
    [
        ({}, "no mariadbd: install MariaDB"),
        ({"mariadbd": OURS}, "no mariadb-install-db: install MariaDB"),
        ({"mariadbd": "mysqld Ver 8.0.36", "mariadb_install_db": ""}, "is no MariaDB server"),
        (
            {"mariadbd": OURS.replace("10.5.29", "10.4.34"), "mariadb_install_db": ""},
            "is MariaDB 10.4.34, and the demonstration needs 10.5 or later",
        ),
    ],
    ids=["nothing", "the server alone", "another server", "an old one"],
)
def test_what_is_missing_is_told(programs: Callable[..., None], present: dict[str, str], told: str) -> None:
    programs(**present)
    with pytest.raises(MariaDbMissing, match=told):
        find_programs()
