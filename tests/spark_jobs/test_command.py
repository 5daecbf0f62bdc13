"""``dumpfilter split`` as a user starts it, where no Spark is needed for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_jobs.session import SparkMissing, check_java
from tests.spark_jobs.walking import ORACLE


def test_without_java_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dumpfilter.cli import main

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkMissing, match="apt-get install default-jre-headless"):
        check_java()
    out = tmp_path / "out"
    monkeypatch.setattr("sys.argv", ["dumpfilter", "split", str(ORACLE / "mysql-row"), "--output", str(out)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert not out.exists()


def test_an_old_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkMissing, match="is Java 8, Spark needs 17"):
        check_java()
