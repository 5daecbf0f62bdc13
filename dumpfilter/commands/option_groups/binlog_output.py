"""The options for the output of ``dumpfilter binlog``: text for a client program, or a binlog set."""

from __future__ import annotations

import enum
from pathlib import Path

from dumpfilter.analyse.printing.may_fail import MayFail
from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting


class BinlogOutputOptions(Settings, panel="Output"):
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
    skip_gtids: bool = setting(True, "--skip-gtids/--no-skip-gtids")
    """Write GTIDs as comments, or as settings, which keep the transactions' GTIDs on the target."""
    may_fail: MayFail = MayFail.SAFE
    """Statements that would fail where the text is run, since the filter dropped what they need, or that the filter
    cannot decide about. safe: comments where they must fail, IF EXISTS where the binlogs do not tell. comment:
    always comments. print: as they are."""
    target_has: list[str] | None = setting(None, metavar="PATTERN", show_default=False)
    """Tables that the target has although the filter drops their CREATE, as a LIKE pattern for db.table, so that
    what needs them is printed. 'db.' is a database. Repeat the option for several patterns. mysql://USER@HOST/ asks the
    target."""

    def target_objects(self) -> list[str]:
        """Return LIKE patterns of the objects that the target has.

        A pattern of ``--target-has`` stays as it is. A server at an address lists its objects. Raises the errors of
        SourceConnection.
        """
        from dumpfilter.receiver.objects import objects_of
        from dumpfilter.receiver.url import is_source_url

        given = self.target_has or []
        return [name for text in given for name in (objects_of(text) if is_source_url(text) else [text])]

    local_load: Path | None = setting(None, metavar="DIR")
    """Directory for the files of LOAD DATA. Without it a new temporary directory."""

    def check(self) -> None:
        """Check that the options fit together. Raises OptionError, for example for ``--raw`` without ``--output``."""
        if self.raw and self.output is None:
            raise OptionError("--raw: name a directory for the set with --output=DIR")
        for_raw = {
            "--output": self.output is not None,
            "--base-name": bool(self.base_name),
            "--overwrite": self.overwrite,
            "--binlog-with-tables-info": self.binlog_with_tables_info,
        }
        for_text = {
            "--no-skip-gtids": not self.skip_gtids,
            "--may-fail": self.may_fail is not MayFail.SAFE,
            "--target-has": bool(self.target_has),
            "--local-load": self.local_load is not None,
        }
        for name, given in for_raw.items():
            if given and not self.raw:
                raise OptionError(f"{name} goes with --raw; text goes to standard output")
        for name, given in for_text.items():
            if given and self.raw:
                raise OptionError(f"{name} is about text and does not go with --raw")


class Base64Output(enum.Enum):
    """The values of ``--base64-output``."""

    AUTO = "auto"
    DECODE_ROWS = "decode-rows"


class BinlogRowOptions(Settings, panel="Rows"):
    """The options for the rows in printed text."""

    verbose: int = setting(0, "--verbose", "-v", count=True, metavar="", show_default=False)
    """Print the changed rows as comments (### INSERT INTO …). -vv adds the columns' types."""
    base64_output: Base64Output = Base64Output.AUTO
    """auto prints the BINLOG statements, which repeat the rows where the text is run. decode-rows leaves them out:
    with -v for people who read."""

    @property
    def row_events(self) -> bool:
        """Whether BINLOG statements with the rows are printed."""
        return self.base64_output is not Base64Output.DECODE_ROWS

    def check(self, *, raw: bool) -> None:
        """Check that a binlog set (``raw``) is written without these options. Raises OptionError."""
        for name, given in {"--verbose": self.verbose > 0, "--base64-output": not self.row_events}.items():
            if given and raw:
                raise OptionError(f"{name} is about text and does not go with --raw")
