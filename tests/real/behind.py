"""A dumpfilter master with a port for real replicas, as a process that tests start and kill."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from dumpfilter.testbed.servers.server import free_port
from tests.slave.driven import wait_until
from tests.slave.processes import Launcher

PASSWORD = "behind-secret"
"""The password of each user of the port."""


_READ_AGAIN = "the configuration was read again"
"""The log's line after a reload."""


@dataclass(frozen=True)
class ReplicaUser:
    """A user of the port, with the filter that dumpfilter has for it."""

    name: str
    rules: Iterable[str]


class Dumpfilter:
    """The process ``dumpfilter master --replica-port``, with its configuration in ``directory``.

    A process that is started again has the port of the one before.
    """

    def __init__(self, launcher: Launcher, directory: Path, *options: str, port: int = 0) -> None:
        self.port = port or free_port()
        self._launcher = launcher
        self._directory = directory
        self._options = options
        directory.mkdir(parents=True, exist_ok=True)

    def configure(self, users: Iterable[ReplicaUser]) -> None:
        """Write the configuration."""
        tables = [
            f"[[replica]]\nuser = {_text(user.name)}\npassword = {_text(PASSWORD)}\n"
            f"rules = [{', '.join(_text(rule.removeprefix('--')) for rule in user.rules)}]\n"
            for user in users
        ]
        path = self._directory / "master.toml"
        path.touch(mode=0o600)
        path.write_text("\n".join(tables))

    def start(self, binlogs: Path | str, *options: str) -> None:
        """Start the process and wait until it serves."""
        note = self._directory / "port"
        note.unlink(missing_ok=True)
        config = ("--config", str(self._directory / "master.toml"))
        ports = ("--port", "0", "--port-file", str(note), "--replica-port", str(self.port))
        self._launcher.start(self._name, "master", str(binlogs), *config, *ports, *self._options, *options)
        wait_until(lambda: note.exists() or self._ended(), self.log)
        assert not self._ended(), self.log()

    @property
    def _name(self) -> str:
        return f"dumpfilter-{self.port}"

    def _ended(self) -> bool:
        return (self._launcher.directory / f"{self._name}.log.exit").exists()

    @property
    def running(self) -> bool:
        """True from the start to the kill."""
        return self._name in self._launcher.running

    def kill(self) -> None:
        """Kill the process."""
        if self.running:
            self._launcher.kill(self._name)

    def reload(self) -> None:
        """Let the process read its configuration again, and wait until it has."""
        log = self._launcher.directory / f"{self._name}.log"
        before = log.read_text().count(_READ_AGAIN)
        self._launcher.kill(self._name, signal.SIGHUP)
        wait_until(lambda: log.read_text().count(_READ_AGAIN) > before, self.log)

    def log(self) -> str:
        """Return the end of the process's output."""
        return self._launcher.log(self._name)


def _text(text: str) -> str:
    """Return a TOML string."""
    return json.dumps(text, ensure_ascii=False)


def users(filters: Mapping[str, Iterable[str]]) -> list[ReplicaUser]:
    """Return a user for each filter."""
    return [ReplicaUser(name, rules) for name, rules in filters.items()]
