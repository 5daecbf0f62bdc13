"""The completion of a shell: its script, and the values of options and arguments."""

from __future__ import annotations

import os
from unittest import mock

import pytest

from dumpfilter.cli import main
from tests.commands.in_process import run


def completed(*words: str) -> list[str]:
    """Return the values with which bash completes the last word."""
    asked = {
        "_DUMPFILTER_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(("dumpfilter", *words)),
        "COMP_CWORD": str(len(words)),
    }
    with mock.patch.dict(os.environ, asked):
        done = run()
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("name", ["dumpfilter", "/tree/dumpfilter/__main__.py"])
def test_the_script_completes_the_command(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", [name, "--show-completion"])
    # The shell is the parent process otherwise.
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    with pytest.raises(SystemExit):
        main()
    script = capsys.readouterr().out
    assert "_DUMPFILTER_COMPLETE=complete_bash" in script
    assert "_dumpfilter_completion dumpfilter\n" in script


def test_a_value_of_all_commands() -> None:
    assert completed("--log-format", "j") == ["json"]
