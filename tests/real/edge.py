"""A slave with a port for real replicas, as a process that tests start and kill."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dumpfilter.testbed.servers.server import free_port
from tests.real.behind import PASSWORD
from tests.slave.driven import wait_until
from tests.slave.processes import Launcher

USER = "edge"
"""The user of the port."""


class Edge:
    """A running ``dumpfilter slave --replica-port``, with a directory for relay logs and configuration file.

    A process that is started again has the port of the one before. ``replica_rules`` is the second filter, that of the
    replicas.
    """

    def __init__(
        self,
        launcher: Launcher,
        directory: Path,
        *options: str,
        port: int = 0,
        replica_rules: Iterable[str] = (),
    ) -> None:
        self.port = port or free_port()
        self.relay_dir = directory / "relay"
        self._launcher = launcher
        self._directory = directory
        self._options = options
        directory.mkdir(parents=True, exist_ok=True)
        rules = ", ".join(f'"{rule.removeprefix("--")}"' for rule in replica_rules)
        path = directory / "edge.toml"
        path.touch(mode=0o600)
        path.write_text(f'[[replica]]\nuser = "{USER}"\npassword = "{PASSWORD}"\nrules = [{rules}]\n')

    def start(self, master: int, *options: str) -> None:
        """Start the process at a master's port, and wait until replicas can connect."""
        note = self._directory / "port"
        note.unlink(missing_ok=True)
        self._launcher.start(
            self.name,
            *("slave", "--master", f"127.0.0.1:{master}", "--relay-dir", str(self.relay_dir)),
            *("--server-id", str(self.port), "--connect-retry", "0.1", "--summary", "none"),
            *("--replica-port", str(self.port), "--replica-port-file", str(note)),
            *("--config", str(self._directory / "edge.toml")),
            *self._options,
            *options,
        )
        wait_until(lambda: note.exists() or self.has_ended, self.log)
        assert not self.has_ended, self.log()

    @property
    def name(self) -> str:
        """The process's name."""
        return f"edge-{self.port}"

    @property
    def has_ended(self) -> bool:
        """True when the process has ended by itself."""
        return (self._launcher.directory / f"{self.name}.log.exit").exists()

    def kill(self) -> None:
        """Kill the process."""
        if self.name in self._launcher.running:
            self._launcher.kill(self.name)

    def log(self) -> str:
        """Return the end of the process's output."""
        return self._launcher.log(self.name)
