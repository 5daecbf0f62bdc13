"""The process of a slave, which runs the channels until the slave ends, and an SQL console if the user wants one. At
the end the process prints a report.

The slave ends at the end of the newest binlog (``--once``), after an error, or at a signal. The report has the
positions, GTID sets and counts of each channel, and a summary of the applied changes.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter import __version__
from dumpfilter.base import files
from dumpfilter.base.errors import OptionError
from dumpfilter.base.logs import logger
from dumpfilter.base.printable import for_terminal
from dumpfilter.base.security.audit import open_audit_log
from dumpfilter.base.security.client_tls import CA_OPTION, TlsFileError
from dumpfilter.base.security.tls import ServerTls, TlsFiles, load_tls, make_key_pair
from dumpfilter.console.connection import ConsoleServer
from dumpfilter.console.metrics import CommonCollector, MetricsEndpoint, serving_metrics
from dumpfilter.console.port import ConnectionDirectory, ConsoleEndpoint
from dumpfilter.console.sql.commands import Executor
from dumpfilter.filter.channels import ChannelFilters
from dumpfilter.slave import facts
from dumpfilter.slave.channels import Channel, RelayReader, Slave
from dumpfilter.slave.console import SlaveConsole
from dumpfilter.slave.options import SlaveOptions
from dumpfilter.slave.state import SourceInfo
from dumpfilter.slave.threads import SYNC_TIME
from dumpfilter.v1 import dumpfilter_pb2 as pb

log = logger("dumpfilter.slave")


CERTIFICATE = "tls-cert.pem"
KEY = "tls-key.pem"


def kept_tls(directory: Path, host: str, ca: Path | None) -> ServerTls:
    """Return the TLS settings of the console, with the certificate and key in ``directory``.

    If ``directory`` has no usable certificate, the slave makes and stores a new one for ``host``. This happens at the
    first start, after a crash between the writes of the two files, and when the certificate has expired. ``ca`` is a
    file of certificate authorities; with ``ca``, clients must show a certificate that one of these authorities signed.
    Raises OptionError when the file ``ca`` is unusable, and OutputError when the slave cannot write a file.
    """
    paths = TlsFiles(directory / CERTIFICATE, directory / KEY, ca)
    try:
        return load_tls(paths)
    except TlsFileError as unusable:
        if unusable.option == CA_OPTION:
            raise
        if (directory / CERTIFICATE).exists():
            log.warning("the slave makes a new certificate", file=str(unusable.path), reason=unusable.what)
    made = make_key_pair(host)
    files.replace(directory / KEY, made.key, mode=0o600)
    files.replace(directory / CERTIFICATE, made.certificate, mode=0o644)
    return load_tls(paths)


class SlaveCollector(Collector):
    """A collector for Prometheus, which reads a slave's metrics when they are requested. The collector does not wait
    for console statements that change the slave.
    """

    def __init__(self, slave: Slave) -> None:
        self._slave = slave

    def collect(self) -> Iterator[Metric]:
        """Yield the present values of all metrics of the slave."""
        channels = list(map(facts.ChannelView, self._slave.channels))
        yield from facts.Threads.families([thread for view in channels for thread in (view.io, view.sql)])
        yield from facts.Channels.families(channels)
        yield from facts.Process.families([SYNC_TIME])


class ReplicaPorts(Protocol):
    """The replication ports of a slave. At these ports the slave serves its relay logs to real replicas and to other
    slaves.
    """

    @property
    def channels(self) -> Mapping[str, RelayReader]:
        """The readers through which the ports serve the slave's relay logs, by the name of the channel."""

    def replicas(self) -> Sequence[tuple[int, str, int, int, str]]:
        """Return the rows of SHOW REPLICAS, one for each replica that is connected to the ports. A row has the
        replica's server id, host and port, the source's server id, and the replica's UUID.
        """

    def serving(
        self, slave: Slave, executor: Executor, directory: ConnectionDirectory
    ) -> AbstractContextManager[None]:
        """Serve the relay logs of ``slave`` to real replicas and to other slaves while the ``with`` block runs.

        ``executor`` executes the SQL statements that replicas and other clients send to the ports. ``directory`` lists
        all connections of clients, for SHOW PROCESSLIST and KILL.
        """


def run_slave(
    options: SlaveOptions,
    filters: ChannelFilters,
    sources: Sequence[SourceInfo],
    *,
    console: ConsoleEndpoint | None = None,
    ports: ReplicaPorts | None = None,
    metrics: MetricsEndpoint | None = None,
    audit_file: Path | None = None,
) -> Sequence[Channel]:
    """Run a slave until it ends, and return its channels for the final report.

    ``sources`` are the channels that the command line configures. ``console`` is the address of the SQL console,
    ``ports`` are the ports for replicas, and ``metrics`` is the HTTP endpoint for Prometheus; None leaves each out.
    Without ``audit_file`` the audit log is part of the ordinary log.

    A slave without a console ends when the threads of all its channels have ended, or at Ctrl-C or SIGTERM. A slave
    with a console ends only at Ctrl-C or SIGTERM, because START REPLICA can start its threads again. The exception is a
    slave with ``once`` and without ``skip_replica_start``, which ends when its threads have ended.

    Raises OptionError for impossible options. A slave without a console, or with ``once``, raises the error that ended
    a thread first.
    """
    open_audit_log(audit_file)
    users, roles = ({}, {}) if console is None else console.accounts()
    if console is None and options.skip_replica_start:
        raise OptionError("--skip-replica-start: without --console-port nothing could ever start it")
    slave = Slave(options, filters, sources, readers=None if ports is None else ports.channels)
    directory = ConnectionDirectory()
    executor = SlaveConsole(slave) if ports is None else SlaveConsole(slave, ports.replicas)
    try:
        for warning in slave.warnings:
            log.warning("filter options without a channel", reason=warning)
        if console is None and not slave.channels:
            raise OptionError(
                "there is no channel: give --master, or --console-port and configure one by statements"
            )
        with ExitStack() as stack, ExitStack() as starting:
            # As on a server, the statements of clients wait until the threads have started.
            starting.enter_context(slave.lock)
            if console is not None:
                tls = console.tls or kept_tls(options.relay_dir, console.host, console.ca)
                endpoint = replace(console, tls=tls)
                made = ConsoleServer(executor, endpoint, users, roles=roles, directory=directory)
                executor.port = stack.enter_context(made.running()).port
            if ports is not None:
                stack.enter_context(ports.serving(slave, executor, directory))
            metrics_url = stack.enter_context(
                serving_metrics(metrics, lambda: [CommonCollector(__version__), SlaveCollector(slave)])
            )
            if metrics_url is not None:
                log.info("metrics", url=metrics_url)
            try:
                # SIGTERM ends a running slave as Ctrl-C does.
                signal.signal(signal.SIGTERM, signal.default_int_handler)
                if not options.skip_replica_start:
                    slave.start()
                starting.close()
                if console is None or (options.once and not options.skip_replica_start):
                    slave.wait()
                else:
                    # A slave with a console sleeps here until Ctrl-C or SIGTERM raises KeyboardInterrupt. Clients of
                    # the console start and stop the threads meanwhile.
                    while True:
                        time.sleep(1.0)
                        # A certificate that changed and cannot be used shall be in the log before a client connects.
                        if console is not None and console.tls is not None:
                            console.tls.current()
            except KeyboardInterrupt:
                slave.stop()
        channels = slave.channels
    finally:
        slave.close()
    if slave.error is not None and (console is None or options.once):
        raise slave.error
    return channels


def report(channel: Channel) -> dict[str, Any]:
    """Return the final report of a channel whose two threads have ended, as a dictionary that JSON can represent.

    The report has the state of the target (the object to which the slave applies transactions), such as counts and
    hashes of the applied changes by table. Further members are the positions and GTID sets of both threads, the filter
    rules that the master's operator imposes, and the counts of received messages and bytes. The counts begin at the
    newest start of the I/O thread.
    """
    master, relay, received = channel.master_info, channel.relay_log_info, channel.counters.received
    return {
        "summary": channel.target.state(),
        "position": {"file": relay.source_file, "position": relay.source_position},
        "gtid_set": relay.executed,
        "retrieved_position": {"file": master.source_file, "position": master.source_position},
        "retrieved_gtid_set": master.retrieved,
        "relay_log": {"file": relay.relay_file, "position": relay.relay_offset},
        **{name: received[name] for name in ("connections", "chunks", "bytes_received")},
        "counts": {name: received[name] for name in pb.Counts.DESCRIPTOR.fields_by_name},
        "imposed": facts.imposed_rules(channel),
    }


def write_reports(channels: Sequence[Channel], form: Literal["json", "table"], path: Path | None) -> None:
    """Write the final reports of ``channels`` to the file ``path``, or to standard output when ``path`` is None. A
    report has a channel's positions, GTID sets and counts (:func:`report`).

    ``form`` chooses JSON for programs or tables for people. JSON for several channels is an object whose member
    ``channels`` has the reports by channel name. Raises OutputError when the file cannot be written.
    """
    reports = {each.name: report(each) for each in channels}
    if form == "json":
        values = {"channels": reports} if len(reports) != 1 else reports[channels[0].name]
        text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
    else:
        text = ""
        for each in channels:
            if len(channels) > 1:
                text += f"channel         {each.name or '(default)'}\n"
            text += each.target.text() + "\n" + _lines(reports[each.name])
    if path is None:
        # Names come from the master's binlog. Programs get them unchanged.
        sys.stdout.write(for_terminal(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
    else:
        files.replace(path, text.encode(), synced=False)


def _lines(values: dict[str, Any]) -> str:
    counts = values["counts"]
    position, retrieved = values["position"], values["retrieved_position"]
    return (
        f"position        {position['file']}:{position['position']}\n"
        f"retrieved       {retrieved['file']}:{retrieved['position']}\n"
        f"gtid_set        {values['gtid_set']}\n"
        f"bytes_received  {values['bytes_received']} of {counts['bytes_read']} read by the master "
        f"({counts['bytes_dropped']} dropped)\n"
        f"undecided       {counts['events_undecided']} of {counts['events_sent']} events sent "
        "(left to this slave's filter)\n"
        + (f"imposed         {' '.join(values['imposed'])}\n" if values["imposed"] else "")
    )
