"""The page that ``--help`` prints for a command: whole option names, and examples that can be copied, at any width.

Typer's own page has a column for names and one for texts. On a terminal of 80 columns it cuts names such as
``--replicate-wild-ignore-table``, and breaks examples.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

WIDEST = 100
"""The maximum width of the page, columns. Longer lines are hard to read."""

_INDENT = 6
"""The indentation of an option's text, columns."""

_CODE = 4
"""The indentation of an example's line in a docstring, spaces, as in Markdown."""


def help_lines(command: TyperCommand | TyperGroup, ctx: Any, width: int) -> Iterator[str]:
    """Yield the lines of the ``--help`` page of a command: its usage, its description, the options under their
    headings, and a group's commands. Texts are wrapped to ``width`` columns. Names and examples are not wrapped.
    """
    usage = " ".join([str(ctx.command_path), *command.collect_usage_pieces(ctx)])
    yield from ("", typer.style(f"Usage: {usage}", bold=True), "")
    for paragraph in _plain(command.help or "").split("\n\n"):
        if paragraph.startswith("dumpfilter "):
            yield typer.style(" " * _CODE + paragraph, fg="green")
        elif paragraph.startswith(" " * _CODE):
            yield typer.style(paragraph.strip("\n"), fg="green")
        else:
            yield _wrapped(paragraph, 1, width)
        yield ""
    for title, entries in _panels(command, ctx).items():
        yield typer.style(title, bold=True)
        for name, text in entries:
            yield typer.style(f"  {name}", fg="cyan", bold=True)
            yield _wrapped(text, _INDENT, width)
        yield ""


def _wrapped(text: str, indent: int, width: int) -> str:
    wrapper = textwrap.TextWrapper(max(1, width - indent - 1), break_on_hyphens=False, break_long_words=False)
    return textwrap.indent(wrapper.fill(" ".join(text.split())), " " * indent)


def _panels(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Return a dictionary from each heading (panel) of a command's help page to the entries below this heading. An
    entry is the name and the text of a parameter or, for a group, of one of its commands.

    Arguments come first, then options without a heading.
    """
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        if not getattr(parameter, "hidden", False):
            general = "Arguments" if isinstance(parameter, TyperArgument) else "Options"
            panel = getattr(parameter, "rich_help_panel", None) or general
            names, text = parameter.get_help_record(ctx)
            names = names.replace(" range>", ">").removesuffix(" <list[str]>")
            panels.setdefault(panel, []).append((names, _plain(text)))
    for name in command.list_commands(ctx) if isinstance(command, TyperGroup) else ():
        panel, text = command.help_of(ctx, name)
        panels.setdefault(panel, []).append((name, _plain(text.split("\n\n")[0])))
    return {title: entries for title, entries in panels.items() if entries}


def _plain(text: str) -> str:
    # Help texts write \[ for a bracket, which would be markup in an error that Typer prints.
    return text.replace(r"\[", "[")
