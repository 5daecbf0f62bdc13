"""The command ``dumpfilter binlog``, which prints a binlog set as text or writes a filtered copy of it."""

from __future__ import annotations

import sys
from pathlib import Path

from dumpfilter.analyse.printing.options import SelectionOptions, TextOptions
from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, repeated, setting
from dumpfilter.commands.option_groups import BinlogArguments, Rules, VerifyOptions, rule_options
from dumpfilter.filter.filter import FilterOptions
from dumpfilter.filter.rules import RuleKind, WriteRuleKind, make_rules

_RULES = {kind: kind.help for kind in RuleKind} | {
    RuleKind.REWRITE_DB: "FROM->TO: the rules compare TO, and the text has TO. With --raw the events keep FROM."
}
"""The help texts of the rules' options."""


class BinlogFilterOptions(Settings, panel="Filter"):
    """The filter options of ``dumpfilter binlog``.

    They are a replica's options such as ``--replicate-do-db``, a master's such as ``--binlog-do-db``, and the shorter
    spellings of a replica's options such as ``--do-db``, which MySQL's worklog WL#40 proposes. Others select kinds of
    statement.
    """

    rules: Rules = repeated(
        {f"{kind.option} {kind.worklog_option}": (kind, text, kind.metavar) for kind, text in _RULES.items()}
    )
    lower_case_table_names: int = setting(0, min=0, max=2)
    """The comparison of names of databases and tables: 0 with case, 1 and 2 without case."""
    clever: bool = False
    """Follow tables: a renamed table is still filtered by its old name. A table is ignored if its CREATE TABLE … LIKE
    or … SELECT reads an ignored table.
    """
    statement_kind: list[str] | None = setting(None, metavar="KIND")
    """Only statements of this kind (INSERT, create-table …); ROWS stands for row events. Repeatable."""
    ignore_statement_kind: list[str] | None = setting(None, metavar="KIND")
    """No statements of this kind. Repeatable."""
    write_rules: Rules = rule_options(WriteRuleKind)

    def filter_options(self) -> FilterOptions:
        """Return the filter that the options describe. Raises OptionError for a bad value."""
        return FilterOptions(
            rules=tuple(make_rules(self.rules)),
            write_rules=tuple(make_rules(self.write_rules)),
            only_kinds=tuple(self.statement_kind or ()),
            ignored_kinds=tuple(self.ignore_statement_kind or ()),
            clever=self.clever,
            lower_case_table_names=self.lower_case_table_names,
        )


class BinlogOutputOptions(TextOptions, panel="Output"):
    """The output options of ``dumpfilter binlog``.

    The output is text for a client program or, with ``--raw``, a binlog set in a directory.
    """

    raw: bool = False
    """Write a binlog set with its index instead of text."""
    output: Path | None = setting(None, metavar="DIR")
    """With --raw: directory for the set; made when it does not exist."""
    base_name: str = ""
    """With --raw: the new files' name without number. Without it the name of the files read."""
    overwrite: bool = False
    """With --raw: replace a set of that name."""
    binlog_with_tables_info: bool = False
    """With --raw: name the tables in every Query event (WL#40). Servers do not read such files."""

    def target_objects(self) -> list[str]:
        """Return LIKE patterns for the names (``db.table``) of the tables that exist on the target, which is the server
        that will execute the printed text.

        The patterns are the values of the option ``--target-has``. In place of a value that is a server's address
        (``mysql://``), the result has the names of this server's tables and other objects. Raises OptionError for a
        wrong address, and ConnectionLost, TlsError or SourceRefused for a server that cannot be asked.
        """
        from dumpfilter.receiver.login import objects_of
        from dumpfilter.receiver.url import is_source_url

        given = self.target_has or []
        return [name for text in given for name in (objects_of(text) if is_source_url(text) else [text])]

    def check(self) -> None:
        """Check that the options fit together. Raises OptionError, for example for ``--raw`` without ``--output``."""
        if self.raw and self.output is None:
            raise OptionError("--raw: name a directory for the set with --output=DIR")
        if "/" in self.base_name or not self.base_name.isprintable():
            raise OptionError(
                f"--base-name={self.base_name}: is no file name; name the directory with --output"
            )
        if self.raw:
            self.refuse(TextOptions.model_fields, "is about text and does not go with --raw")
        else:
            of_sets = [name for name in type(self).model_fields if name not in TextOptions.model_fields]
            self.refuse(of_sets, "goes with --raw; text goes to standard output")


def binlog_command(
    binlogs: BinlogArguments,
    rules: BinlogFilterOptions,
    selection: SelectionOptions,
    output: BinlogOutputOptions,
    read: VerifyOptions,
) -> None:
    r"""Print the events that pass a filter as SQL text, as mysqlbinlog does, or write them as a binlog set.

    The text can be piped into a client. With --raw the events become binlog files in the directory of --output. With
    --clever the filter follows tables: a renamed table is still filtered by its old name, and a table made LIKE an
    ignored one is ignored, too.

    Examples:

        dumpfilter binlog /var/lib/mysql/binlog.index --do-db=shop \
            | mysql --binary-mode

        dumpfilter binlog binlog.000007 binlog.000008 --start-position=4711 \
            --stop-datetime='2026-11-21 13:00:00' --ignore-statement-kind=drop-table

        dumpfilter binlog binlog.000007 -vv --base64-output=decode-rows \
            --do-table=shop.orders | less

        dumpfilter binlog /var/lib/mysql --clever --do-table=shop.orders \
            --raw --output orders
    """
    from rich.console import Console

    from dumpfilter.analyse.printing.print_set import print_binlog, write_binlog

    output.check()
    selected = rules.filter_options(), selection
    files = binlogs.open()
    log = Console(stderr=True)
    if output.output is not None:
        write_binlog(
            files,
            *selected,
            output.output,
            log,
            verify=read.verify_checksum,
            base=output.base_name,
            overwrite=output.overwrite,
            tables_info=output.binlog_with_tables_info,
        )
        return
    text = output.model_copy(update={"target_has": output.target_objects()})
    print_binlog(files, *selected, text, sys.stdout.buffer, log, verify=read.verify_checksum)
