"""The options of ``dumpfilter binlog`` that select events and shape the printed text."""

from __future__ import annotations

import enum
from pathlib import Path

from dumpfilter.base.options.settings import Settings, setting


class MayFail(enum.StrEnum):
    """The choices of how to print statements that may fail on the server (the target) that runs the printed text.

    Such statements fail because the filter dropped something that they need.
    """

    SAFE = "safe"
    """A statement that must fail is printed as a comment. A DROP gets IF EXISTS if it is unknown whether the object
    exists.
    """
    PRINT = "print"
    """Statements are printed as they are in the binlog."""


class Base64Output(enum.Enum):
    """The values of ``--base64-output``."""

    AUTO = "auto"
    DECODE_ROWS = "decode-rows"


class SelectionOptions(Settings, panel="Selection"):
    """The positions, times and GTIDs between which a command reads a binlog set.

    An empty position or time sets no limit. The values are not parsed here, because their syntax depends on whether
    MySQL or MariaDB wrote the binlog.
    """

    start_position: str = setting("", metavar="BYTES|GTIDS")
    """Begin at this byte offset of the first file, where a transaction begins. For MariaDB also GTIDs: begin after
    them.
    """
    stop_position: str = setting("", metavar="BYTES|GTIDS")
    """Stop at this byte offset of the last file, where a transaction begins. For MariaDB also GTIDs: stop after
    them.
    """
    start_datetime: str = setting("", metavar="DATETIME")
    """Begin with the first transaction at or after this local time."""
    stop_datetime: str = setting("", metavar="DATETIME")
    """Stop before the first transaction at or after this local time."""
    include_gtids: str | None = setting(None, metavar="GTIDS")
    """Select only transactions with these GTIDs, and none if the set is empty."""
    exclude_gtids: str | None = setting(None, metavar="GTIDS")
    """Select no transactions with these GTIDs."""


class TextOptions(Settings, panel="Output"):
    """The options for the form of the printed SQL text. A client runs the text on another server, the target."""

    skip_gtids: bool = setting(True, "--skip-gtids/--no-skip-gtids")
    """Write GTIDs as comments, or as settings, which keep the transactions' GTIDs on the server that runs the text."""
    may_fail: MayFail = MayFail.SAFE
    """How to print statements that fail on the server that runs the text, because the filter dropped what they need.
    safe: as comments if they surely fail, with IF EXISTS if that is unknown. print: unchanged.
    """
    target_has: list[str] | None = setting(None, metavar="PATTERN", show_default=False)
    """Tables that exist on the target (the server that runs the text) although the filter drops their CREATE TABLE, as
    a LIKE pattern for db.table. Statements that need them are then printed. 'db.' is a database. Repeat the option for
    several patterns. mysql://USER@HOST/ asks the target.
    """
    local_load: Path | None = setting(None, metavar="DIR")
    """Directory for the files of LOAD DATA. Without it a new temporary directory."""
    verbose: int = setting(
        0, "--verbose", "-v", count=True, metavar="", show_default=False, rich_help_panel="Rows"
    )
    """Print the changed rows as comments (### INSERT INTO …). -vv adds the columns' types."""
    base64_output: Base64Output = setting(Base64Output.AUTO, rich_help_panel="Rows")
    """auto prints BINLOG statements, which apply the row events when a client runs the text. decode-rows leaves them
    out: use it with -v, to read the text.
    """

    @property
    def row_events(self) -> bool:
        """Whether the printed text has BINLOG statements, which carry the row events."""
        return self.base64_output is not Base64Output.DECODE_ROWS
