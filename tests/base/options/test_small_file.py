"""Configuration files that are no files, or far too large."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import (
    Model,
    load_toml,
    read_options_file,
    read_password,
    read_small_file,
)


def test_an_endless_file_is_refused() -> None:
    endless = Path("/dev/zero")
    for read in (
        read_small_file,
        lambda path: load_toml(path, Model),
        read_options_file,
        lambda path: read_password(path, "UNUSED"),
    ):
        with pytest.raises(OptionError, match=r"/dev/zero: has more than the limit of 16777216 bytes"):
            read(endless)


def test_a_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    """The shell's process substitution makes a pipe."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(b"x" * 100_000,))
    writer.start()
    assert read_small_file(tmp_path / "pipe") == b"x" * 100_000
    writer.join()


def test_a_password_that_is_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", os.fsdecode(b"caf\xe9"))
    (tmp_path / "file").write_bytes(b"caf\xe9\n")
    for path, named in ((None, "SECRET"), (tmp_path / "file", str(tmp_path / "file"))):
        with pytest.raises(OptionError, match=f"^{named}: the password cannot be read: .* byte 0xe9"):
            read_password(path, "SECRET")
