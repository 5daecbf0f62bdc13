"""The options that name slaves with their filters, for commands that compute what each slave would receive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.options.settings import Settings, setting

if TYPE_CHECKING:
    from dumpfilter.topology.slaves_file import SlaveDefinition


class SlaveSetOptions(Settings):
    """The slaves of files, and those that the command line describes."""

    slaves: list[Path] | None = setting(None, metavar="FILE", show_default=False)
    """Slaves and their filters: a TOML file, or a replica's own my.cnf. Repeatable."""
    slave: list[str] | None = setting(None, metavar="NAME:OPTIONS", show_default=False)
    """A slave and its filter, to ask what if. Beside --slaves, or instead of it. Repeatable."""

    @property
    def is_what_if(self) -> bool:
        """Whether the command line describes a slave. Such a question deserves an answer at once."""
        return bool(self.slave)

    def definitions(self) -> list[SlaveDefinition]:
        """Return the slaves. Raises OptionError."""
        from dumpfilter.topology.slave_options import slaves_of

        return slaves_of(self.slaves or [], self.slave or [])
