"""The options for the rows in the text of ``dumpfilter binlog``."""

from __future__ import annotations

import enum

from dumpfilter.errors import OptionError
from dumpfilter.options.settings import Settings, setting

PANEL = "Rows"


class Base64Output(enum.Enum):
    """The values of ``--base64-output``."""

    AUTO = "auto"
    DECODE_ROWS = "decode-rows"


class BinlogRowOptions(Settings, panel=PANEL):
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
