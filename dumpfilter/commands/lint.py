"""The command ``dumpfilter lint``, which warns of rules that do not do what they seem to do."""

from __future__ import annotations

from collections.abc import Hashable

import typer

from dumpfilter.base.errors import OptionError
from dumpfilter.commands import option_groups as shared

FOUND = 4
"""The exit code when a filter has a warning. Notes alone give 0."""


def lint_command(
    binlogs: shared.BinlogArguments,
    rules: shared.SlaveFilterOptions,
    slaves: shared.SlaveSetOptions,
    output: shared.JsonOption,
    read: shared.VerifyOptions,
) -> None:
    """Warn of filter rules that do not do what they seem to do with a binlog set.

    Each warning has a code and the cure. It also has the rules that are at
    fault, unless a rule is missing, and events of the set that show the fault,
    if there are any. docs/lint.md lists the codes. The exit code is 4 when there
    is a warning, and 0 when there are only notes or nothing.

    Examples:

        dumpfilter lint /var/lib/mysql/binlog.index --replicate-do-db=shop,hr

        dumpfilter lint /var/lib/mysql/binlog.index --slaves slaves.toml
    """
    from rich.console import Console
    from rich.text import Text

    from dumpfilter.analyse.lint.findings import FilterWarning, Level, print_warnings, warning_as_dict
    from dumpfilter.analyse.lint.knowledge import gather
    from dumpfilter.analyse.lint.linting import lint
    from dumpfilter.analyse.report.terminal import output_console, print_json
    from dumpfilter.base.printable import visible

    definitions = slaves.definitions()
    if bool(definitions) == bool(rules.rules):
        raise OptionError("give either rules, such as --replicate-do-db=shop, or --slaves FILE, or --slave")
    source = binlogs.open()
    written_by = source.written_by
    filters = {one.name: one.filter(written_by) for one in definitions} or {
        "": rules.filter_options().slave_filter(written_by)
    }
    knowledge = gather(source, verify=read.verify_checksum, console=Console(stderr=True))
    of_filters: dict[Hashable, tuple[FilterWarning, ...]] = {}
    found: dict[str, tuple[FilterWarning, ...]] = {}
    for name, one in filters.items():
        key = type(one), one.rules, one.names
        if key not in of_filters:
            of_filters[key] = tuple(lint(one, knowledge))
        found[name] = of_filters[key]
    if output.as_json:
        listed = [
            {
                "name": name,
                "rules": [str(rule) for rule in filters[name].rules],
                "warnings": [warning_as_dict(each) for each in warnings],
            }
            for name, warnings in found.items()
        ]
        print_json({"filters": listed, "is_whole": knowledge.is_whole})
    else:
        console = output_console()
        alike: dict[tuple[FilterWarning, ...], list[str]] = {}
        for name, warnings in found.items():
            alike.setdefault(warnings, []).append(name)
        for warnings, names in alike.items():
            title = [Text(visible(", ".join(names)), style="bold")] if definitions else []
            if said := title if warnings else [*title, "no warnings"]:
                console.print(*said)
            print_warnings(warnings, console)
        if not knowledge.is_whole:
            console.print(
                "The set has more changes of definitions than lint looks at. Later ones were left out."
            )
    if any(each.level is Level.WARNING for warnings in found.values() for each in warnings):
        raise typer.Exit(FOUND)
