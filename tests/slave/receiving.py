"""Relay logs and a receiver in a relay directory, without a network."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.slave.receiver import Receiver
from dumpfilter.slave.relay_log import RelayLog
from dumpfilter.slave.threads import RelayEnd


class Slave:
    """A receiver in a directory. After a crash a test makes another one in the same directory."""

    def __init__(self, directory: Path, *, save_period: float, sync: int) -> None:
        self.directory = directory
        self.relay_log = RelayLog(directory, synced=bool(sync))
        self.receiver = Receiver(self.relay_log, RelayEnd(), sync_every=sync, save_period=save_period)

    def replicate(self, master, cuts) -> None:
        self.receiver.begin_stream(master_uuid="m", family="mysql")
        info = self.receiver.place.info
        for chunk in master.chunks(info.source_file, info.source_position or 4, cuts):
            self.receiver.receive(chunk)
        self.receiver.close()


def write_recording(directory: Path, files) -> RelayLog:
    """Write recorded binlog files into a new relay log."""
    log = RelayLog(directory)
    log.recover(None)
    for file in files:
        log.rotate(file.name, 4, file.format_description, {})
        for transaction in file.transactions:
            for event in transaction.events:
                log.append(event)
    log.close()
    return log
