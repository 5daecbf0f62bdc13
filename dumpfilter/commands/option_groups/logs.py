"""The options for the log of a process that runs long."""

from __future__ import annotations

from dumpfilter.logs import Format, Level, configure_preferred
from dumpfilter.options.settings import Settings, setting

PANEL = "Log"


class LogOptions(Settings, panel=PANEL):
    """The format of a process's log on standard error, and the least level of its lines."""

    log_format: Format | None = setting(None, show_default=Format.TEXT.value)
    """The form of the log: text for people, or json with one object a line for programs."""
    log_level: Level | None = setting(None, show_default=Level.INFO.value)
    """The least level of the log's lines. Lines of the audit log have no level, and always appear."""

    def begin(self, *, colors: bool) -> None:
        """Configure the log of this process. ``colors`` says whether text lines may have colors."""
        configure_preferred(self.log_format, self.log_level, otherwise=Level.INFO, colors=colors)
