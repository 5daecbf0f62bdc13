"""The page that ``--help`` prints for a command: whole option names, and examples that can be copied, at any width.

Typer's own page has a column for names and one for texts. On a terminal of 80 columns it cuts names such as
``--replicate-wild-ignore-table``, and breaks examples.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text
from typer.core import TyperArgument, TyperCommand, TyperGroup

WIDEST = 100
"""The maximum width of the page, columns. Longer lines are hard to read."""

_INDENT = 6
"""The indentation of an option's text, columns."""

_CODE = 4
"""The indentation of an example's line in a docstring, spaces, as in Markdown."""


def print_help(command: TyperCommand | TyperGroup, ctx: Any, console: Console) -> None:
    """Print the ``--help`` page of a command: its usage, its description, the options under their headings, and a
    group's commands.
    """
    usage = " ".join([str(ctx.command_path), *command.collect_usage_pieces(ctx)])
    console.print(Text(f"\nUsage: {usage}\n", style="bold"), soft_wrap=True)
    for paragraph in (command.help or "").split("\n\n"):
        _print_paragraph(paragraph.strip("\n"), console)
    for title, parameters in _panels(command, ctx).items():
        console.print(Text(title, style="bold"))
        for parameter in parameters:
            _print_option(parameter, ctx, console)
        console.print()
    if isinstance(command, TyperGroup):
        _print_commands(command, ctx, console)


def _print_paragraph(paragraph: str, console: Console) -> None:
    if paragraph.startswith((" " * _CODE, "dumpfilter ")):
        lines = paragraph.splitlines() if paragraph.startswith(" ") else [" " * _CODE + paragraph]
        for line in lines:
            # A docstring writes \[ for a bracket that is no markup.
            console.print(Text(line.replace(r"\[", "["), style="green"), soft_wrap=True)
    else:
        _print_wrapped(Text.from_markup(" ".join(paragraph.split())), 1, console)
    console.print()


def _print_wrapped(text: Text, indent: int, console: Console) -> None:
    for line in text.wrap(console, console.width - indent - 1):
        line.rstrip()
        console.print(Text(" " * indent).append_text(line), soft_wrap=True)


def _panels(command: TyperCommand | TyperGroup, ctx: Any) -> dict[str, list[Any]]:
    """Return the parameters of a command that its help page shows, by the heading (panel) under which they stand.
    Arguments come first, then options without a panel.
    """
    panels: dict[str, list[Any]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        if not getattr(parameter, "hidden", False):
            general = "Arguments" if isinstance(parameter, TyperArgument) else "Options"
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or general, []).append(parameter)
    return {title: parameters for title, parameters in panels.items() if parameters}


def _print_option(parameter: Any, ctx: Any, console: Console) -> None:
    names, text = parameter.get_help_record(ctx)
    # The record ends with the default value and the range, which are no markup.
    written = parameter.help or ""
    facts = text[len(written) :].strip() if text.startswith(written) else ""
    body = Text.from_markup(written)
    if facts:
        body.append(" " if written else "").append(facts, style="dim")
    shown = names.replace(" range>", ">").removesuffix(" <list[str]>")
    console.print(Text(f"  {shown}", style="bold cyan"), soft_wrap=True)
    _print_wrapped(body, _INDENT, console)


def _print_commands(group: Any, ctx: Any, console: Console) -> None:
    panels: dict[str, list[tuple[str, str]]] = {}
    for name in group.list_commands(ctx):
        panel, text = group.help_of(ctx, name)
        panels.setdefault(panel, []).append((name, text))
    for title, commands in panels.items():
        console.print(Text(title, style="bold"))
        for name, text in commands:
            first = text.split("\n\n")[0]
            console.print(Text(f"  {name}", style="bold cyan"), soft_wrap=True)
            _print_wrapped(Text.from_markup(" ".join(first.split())), _INDENT, console)
        console.print()
    if group.epilog:
        _print_paragraph(group.epilog, console)
