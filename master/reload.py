"""The reloading of the master's configuration file, after SIGHUP or the statement FLUSH PRIVILEGES."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from dumpfilter.base.errors import OptionError
from dumpfilter.base.printable import printable
from dumpfilter.master.config import MasterConfig
from dumpfilter.master.service import DumpFilterService

log = structlog.get_logger("dumpfilter.master")


@dataclass
class Reload:
    """Reloads the configuration file of a running master. Thread-safe."""

    service: DumpFilterService
    load: Callable[[], MasterConfig] | None
    """The function that reads and checks the file. None: the master was started without a file."""
    on_change: list[Callable[[MasterConfig], None]] = field(default_factory=list)
    """Further functions that take over the new configuration. They may raise OptionError to refuse it."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Read the configuration file, and put its users and filters into force, also in running dumps.

        If the file cannot be used, the master keeps its present configuration, and the method raises OptionError. It
        also raises OptionError when the master has no configuration file.
        """
        if self.load is None:
            raise OptionError("there is nothing to read again: the master was started without --config")
        with self._lock:
            try:
                config = self.load()
                self.service.check_reconfigurable(config)
                for change in self.on_change:
                    change(config)
                ended = self.service.reconfigure(config)
            except OptionError as error:
                log.error(
                    "the configuration was not read again",
                    hint="the old one stays",
                    reason=printable(str(error)),
                )
                raise
            log.info(
                "the configuration was read again",
                users=len(config.users),
                console_users=len(config.console_users),
                imposed=len(config.imposed),
                replicas=len(config.replicas),
                registrations_ended=ended,
            )
            warn_of_plain_passwords(config)


def warn_of_plain_passwords(config: MasterConfig) -> None:
    """Log a warning if the configuration file holds passwords in plain text."""
    if config.plain:
        log.warning(
            "the configuration holds passwords in the clear",
            keys=list(config.plain),
            hint="dumpfilter password-hash makes hashes",
        )
