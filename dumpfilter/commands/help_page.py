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
    for title, entries in _panels(command, ctx).items():
        console.print(Text(title, style="bold"))
        for name, text in entries:
            console.print(Text(f"  {name}", style="bold cyan"), soft_wrap=True)
            _print_wrapped(text, _INDENT, console)
        console.print()


def _print_paragraph(paragraph: str, console: Console) -> None:
    if paragraph.startswith((" " * _CODE, "dumpfilter ")):
        lines = paragraph.splitlines() if paragraph.startswith(" ") else [" " * _CODE + paragraph]
        for line in lines:
            # A docstring writes \[ for a bracket that is no markup.
            console.print(Text(line.replace(r"\[", "["), style="green"), soft_wrap=True)
    else:
        _print_wrapped(_unwrapped(paragraph), 1, console)
    console.print()


def _print_wrapped(text: Text, indent: int, console: Console) -> None:
    for line in text.wrap(console, console.width - indent - 1):
        line.rstrip()
        console.print(Text(" " * indent).append_text(line), soft_wrap=True)


def _panels(command: Any, ctx: Any) -> dict[str, list[tuple[str, Text]]]:
    """Return a dictionary from each heading (panel) of a command's help page to the entries below this heading. An
    entry is the name and the text of a parameter or, for a group, of one of its commands.

    Arguments come first, then options without a heading.
    """
    panels: dict[str, list[tuple[str, Text]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        if not getattr(parameter, "hidden", False):
            general = "Arguments" if isinstance(parameter, TyperArgument) else "Options"
            panel = getattr(parameter, "rich_help_panel", None) or general
            panels.setdefault(panel, []).append(_option(parameter, ctx))
    for name in command.list_commands(ctx) if isinstance(command, TyperGroup) else ():
        panel, text = command.help_of(ctx, name)
        panels.setdefault(panel, []).append((name, _unwrapped(text.split("\n\n")[0])))
    return {title: entries for title, entries in panels.items() if entries}


def _option(parameter: Any, ctx: Any) -> tuple[str, Text]:
    names, text = parameter.get_help_record(ctx)
    # The record ends with the default value and the range, which are no markup.
    written = parameter.help or ""
    facts = text[len(written) :].strip() if text.startswith(written) else ""
    body = Text.from_markup(written)
    if facts:
        body.append(" " if written else "").append(facts, style="dim")
    return names.replace(" range>", ">").removesuffix(" <list[str]>"), body


def _unwrapped(paragraph: str) -> Text:
    return Text.from_markup(" ".join(paragraph.split()))
