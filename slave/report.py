"""The report that a slave prints at its end: the positions, GTID sets and counts of each channel, and a summary of the
applied changes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from dumpfilter.base import files
from dumpfilter.base.printable import for_terminal
from dumpfilter.slave.channel import Channel
from dumpfilter.slave.facts import imposed_rules

Report = dict[str, Any]
"""The report of one channel. All values can be represented in JSON."""


def report(channel: Channel) -> Report:
    """Return the final report of a channel whose two threads have ended, as a dictionary that JSON can represent.

    It has the state of the target (such as counts and hashes of the applied changes by table). It also has the
    positions and GTID sets of both threads, and the counts of received messages and bytes.
    """
    master, relay, received = channel.master_info, channel.relay_log_info, channel.received
    return {
        "summary": channel.target.state(),
        "position": {"file": relay.source_file, "position": relay.source_position},
        "gtid_set": relay.executed,
        "retrieved_position": {"file": master.source_file, "position": master.source_position},
        "retrieved_gtid_set": master.retrieved,
        "relay_log": {"file": relay.relay_file, "position": relay.relay_offset},
        "connections": received.connections,
        "chunks": received.chunks,
        "bytes_received": received.bytes_received,
        "counts": received.counts,
        "imposed": imposed_rules(channel),
    }


def write_reports(channels: Sequence[Channel], form: Literal["json", "table"], path: Path | None) -> None:
    """Write the channels' reports to the file ``path``, or to standard output when ``path`` is None.

    ``form`` chooses JSON for programs or tables for people. Raises OutputError when the file cannot be written.
    """
    reports = {each.name: report(each) for each in channels}
    texts = {each.name: each.target.text() for each in channels}
    text = _as_json(reports) if form == "json" else _as_tables(reports, texts)
    if path is None:
        # Names come from the master's binlog. Programs get them unchanged.
        sys.stdout.write(for_terminal(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
    else:
        files.replace(path, text.encode(), synced=False)


def _as_json(reports: Mapping[str, Report]) -> str:
    values = next(iter(reports.values())) if len(reports) == 1 else {"channels": reports}
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


def _as_tables(reports: Mapping[str, Report], texts: Mapping[str, str]) -> str:
    text = ""
    for name, values in reports.items():
        heading = f"channel         {name or '(default)'}\n" if len(reports) > 1 else ""
        text += heading + texts[name] + "\n" + _lines(values)
    return text


def _lines(values: Report) -> str:
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
