"""The options that several commands share."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import read_password
from dumpfilter.commands.option_groups import make_password


def test_a_password_file_never_exists_without_its_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "console.password"

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OptionError, match="No space left on device"):
            make_password(path)
    assert list(tmp_path.iterdir()) == [], "the next start would let the user in without a password"
    make_password(path)
    made = read_password(path)
    assert len(made) >= 20
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    make_password(path)
    assert read_password(path) == made
    assert list(tmp_path.iterdir()) == [path]
