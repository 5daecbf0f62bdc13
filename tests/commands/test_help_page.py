"""The page that ``--help`` prints for a command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from dumpfilter.cli import app
from dumpfilter.commands.help_page import help_lines
from dumpfilter.commands.sub_command import SubCommand

WIDTH = 80


def commands(group: Any, path: str = "dumpfilter") -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


COMMANDS = dict(commands(get_command(app)))


def page(path: str, width: int = WIDTH) -> str:
    command = COMMANDS[path]
    with command.make_context(path, [], resilient_parsing=True) as context:
        return re.sub(r"\x1b\[[\d;]*m", "", "\n".join(help_lines(command, context, width)))


@pytest.mark.parametrize("path", COMMANDS)
def test_a_page_of_80_columns(path: str) -> None:
    assert isinstance(COMMANDS[path], SubCommand)
    text = page(path)
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []
    shown = [each for each in COMMANDS[path].params if not getattr(each, "hidden", False)]
    names = [name for each in shown for name in (*each.opts, *each.secondary_opts) if name.startswith("-")]
    assert [name for name in names if name not in text] == []


@pytest.mark.parametrize("path", COMMANDS)
def test_examples_can_be_copied(path: str) -> None:
    lines = page(path, width=60).splitlines()
    examples = [line for line in lines if line.startswith("    dumpfilter ")]
    described = [line.strip().replace(r"\[", "[") for line in (COMMANDS[path].help or "").splitlines()]
    assert examples
    assert {line.strip() for line in examples} <= set(described)


def test_narrow_pages_break_texts_and_no_names() -> None:
    text = page("dumpfilter slave", width=40)
    assert "  --source-ssl-verify-server-cert / --no-source-ssl-verify-server-cert\n" in text


def test_a_window_narrower_than_the_indentation_has_a_page() -> None:
    assert page("dumpfilter split", width=1).split() == page("dumpfilter split").split()


@pytest.mark.parametrize(("environment", "has_styles"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_the_page_has_no_styles_where_the_user_wants_none(
    environment: dict[str, str], has_styles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    result = CliRunner().invoke(app, ["slave", "--help"], env=environment, color=True)
    assert ("\x1b[" in result.output) == has_styles
