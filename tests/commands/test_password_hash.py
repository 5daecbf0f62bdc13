"""The command ``dumpfilter password-hash``."""

from __future__ import annotations

import io
import sys

import pytest

from dumpfilter.base.security.passwords import StoredPassword, native_hash
from tests.commands.in_process import run


def test_a_password_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("sécret pass\nsécret pass\n"))
    done = run("password-hash")
    assert (done.returncode, done.stderr) == (0, "")
    assert StoredPassword.parse(done.stdout.strip()).matches("sécret pass")
    done = run("password-hash", "--plugin", "mysql_native_password")
    assert done.stdout.strip() == native_hash("sécret pass")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "code", "said"), [(["a", "a"], 0, ""), (["a", "b"], 2, "the two passwords differ")]
)
def test_a_password_from_the_terminal_is_typed_twice(
    monkeypatch: pytest.MonkeyPatch, typed: list[str], code: int, said: str
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: typed.pop(0))
    done = run("password-hash")
    assert (done.returncode, said in done.stderr) == (code, True)


@pytest.mark.parametrize(("text", "said"), [("\n", "is empty"), ("x" * 256, "longer than 255 bytes")])
def test_unusable_passwords(monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    done = run("password-hash")
    assert done.returncode == 2
    assert said in done.stderr


def test_no_argument_takes_a_password() -> None:
    assert run("password-hash", "secret").returncode == 2
