"""The command ``dumpfilter explain``, which shows what a filter does with events or a statement, and by which rule."""

from __future__ import annotations

from typing import Literal

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import setting
from dumpfilter.commands import option_groups as shared


class ExplainSettings(shared.JsonOption):
    """The options that only ``dumpfilter explain`` has, such as one statement instead of a binlog set, and the form of
    the output.
    """

    statement: str = setting("", metavar="SQL")
    """Explain this statement instead of a binlog set."""
    use: str = setting("", metavar="DB")
    """The default database of --statement. Without this option there is none."""
    events: bool = False
    """Print one line for each event, not for each table or statement; with --json one object a line."""
    top: int = setting(50, min=1)
    """How many tables and statements to list, the largest first."""
    family: Literal["mysql", "mariadb", "mariadb-11.5"] | None = None
    """The server whose rules explain --statement (default: mysql). Accents in table names count for MariaDB from 11.5
    on. For a binlog set, the binlog itself tells the server.
    """

    def check(self, binlogs: list[str]) -> None:
        """Check that the options fit together and with ``binlogs``, the named files. Raises OptionError if they do not,
        for example if a binlog set and ``--statement`` are given, or neither.
        """
        if bool(binlogs) == bool(self.statement.strip()):
            raise OptionError("name a binlog set or a statement (--statement), one of the two")
        if self.statement:
            self.refuse(["events"], "goes with a binlog set")
        else:
            self.refuse(["use"], "goes with --statement; a binlog has the current databases itself")
            self.refuse(["family"], "goes with --statement; a binlog says itself who wrote it")


def explain_command(
    binlogs: shared.OptionalBinlogArguments,
    rules: shared.SlaveFilterOptions,
    write_rules: shared.WriteRuleOptions,
    given: ExplainSettings,
    read: shared.VerifyOptions,
) -> None:
    r"""Say what a filter does with a binlog set, or with one statement, and which rule decides.

    Examples:

        dumpfilter explain /var/lib/mysql/binlog.index --replicate-do-db=shop

        dumpfilter explain /var/lib/mysql/binlog.index \
            --replicate-wild-ignore-table='shop.tmp%' --events

        dumpfilter explain --replicate-do-table=shop.orders \
            --statement "UPDATE orders SET total = 1" --use shop
    """
    from rich.console import Console

    from dumpfilter.analyse import explain
    from dumpfilter.analyse.lint.findings import print_briefly
    from dumpfilter.analyse.report.terminal import output_console, print_json
    from dumpfilter.binlog.format import Family, NameRules, name_collation_of

    given.check(binlogs.binlogs or [])
    options = rules.filter_options(write_rules)
    console = output_console()
    if given.statement:
        server, _, version = (given.family or "mysql").partition("-")
        family: Family = "mariadb" if server == "mariadb" else "mysql"
        names = NameRules(family, name_collation_of(family, version))
        filters = explain.Filters.of(options, names)
        one = explain.explain_statement(given.statement, filters, current_database=given.use or None)
        told = explain.statement_as_dict(one, filters)
        given.show(told, lambda: explain.print_statement(one, filters, console))
        return
    source = binlogs.open()
    filters = explain.Filters.of(options, source.written_by)
    if given.events:
        found = explain.explain_events(source, filters, verify=read.verify_checksum)
        if not given.as_json:
            explain.print_events(found, console)
            return
        for event in found:
            print_json(explain.event_as_dict(event), indent=None)
        return
    whole = explain.explain_set(source, filters, verify=read.verify_checksum)

    def print_set() -> None:
        explain.print_set(whole, filters, console, top=given.top)
        print_briefly(whole.warnings, Console(stderr=True))

    given.show(explain.set_as_dict(whole, filters), print_set)
