"""The artifacts of a failed test: files that show the state of its replication topology, such as status and logs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dumpfilter.base.errors import DumpfilterError

if TYPE_CHECKING:
    from dumpfilter.testbed import NodeStatus, Testbed, TestbedNode

SUMMARY = "summary.txt"
"""The name of the file with the text of the test's report. Its presence marks a directory that this module made."""

LOG_LINES = 5
"""The number of last log lines of a node with a problem that the test's report shows."""

MOST_BYTES = 16 << 20
"""The limit of relay logs and binlogs that are copied for each node, bytes. The newest files are copied first."""

_LOG_FILE = re.compile(r"(?!aria_log\.).+\.\d{6,}")
"""The pattern of a relay log's or binlog's file name, whose suffix is a number. MariaDB's Aria logs look similar."""

_UNSAFE = re.compile(r"[^\w.=+-]+")
_LONGEST_NAME = 120


def save(testbed: Testbed, parent: Path, test: str) -> str:
    """Write files that show the state of a running topology for a failed test, and return a summary of them as a text
    for the test's report.

    They are the status, the report, the history of links, logs, relay logs and binlogs. They are in a new directory
    below ``parent``, whose name is made from ``test``, the test's id. The directory of the same test from an earlier
    run is replaced. The summary names each file that cannot be written.
    """
    directory = _new_directory(parent, test)
    told: list[str] = []

    def attempt(what: str, write: Callable[[], object]) -> None:
        try:
            write()
        except (DumpfilterError, OSError, ValueError) as error:
            told.append(f"no {what}: {error}")

    attempt("status", lambda: told.extend(_save_status(testbed, directory)))
    attempt("report", lambda: _write(directory / "report.json", testbed.report()))
    for name, link in testbed.links.items():
        file = directory / "links" / f"{name.replace(':', '-')}.json"
        attempt(f"history of the link {name}", partial(_write_attribute, file, link, "history"))
    for name, node in testbed.nodes.items():
        file = directory / name / "log.txt"
        attempt(f"log of {name}", partial(_write_attribute, file, node, "logs"))
        attempt(f"relay logs of {name}", partial(_save_binlogs, node, directory / name))
    told.append(f"artifacts: {directory}")
    text = "\n".join(told)
    (directory / SUMMARY).write_text(text + "\n")
    return text


def _new_directory(parent: Path, test: str) -> Path:
    """Create the directory for the artifacts of the test with the id ``test``, replacing this module's older one."""
    parent.mkdir(parents=True, exist_ok=True)
    ignore = parent / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    directory = parent / _UNSAFE.sub("-", test).strip("-")[-_LONGEST_NAME:]
    if (directory / SUMMARY).exists():
        shutil.rmtree(directory)
    directory.mkdir(exist_ok=True)
    return directory


def _save_status(testbed: Testbed, directory: Path) -> Iterator[str]:
    """Write ``status.json``, and yield the lines of the status for the summary.

    There is one line for each node and for each link (network connection) that is not up. A node's problems follow its
    line, and so do the last log lines of a failed node.
    """
    status = testbed.status()
    _write(directory / "status.json", status.as_dict())
    for node in status.nodes.values():
        yield _line(node)
        yield from (f"  {problem}" for problem in node.problems)
        if node.state == "failed":
            yield from (f"  | {line}" for line in testbed[node.name].logs.splitlines()[-LOG_LINES:])
    for link in status.links.values():
        if link.state != "up":
            yield f"link {link.name}: {link.state}"


def _line(node: NodeStatus) -> str:
    name = f"{node.name} ({node.kind}): {node.state}"
    if node.kind in ("server", "running") and not node.channels and not node.place.file:
        # Only a server that runs tells the end of its binlog.
        return f"{name}, place unknown"
    if not node.channels:
        return f"{name}, at {node.place}"
    # The end of a replica's own binlog says nothing about its source's.
    places = " and ".join(f"{channel.applied} of {channel.source}" for channel in node.channels)
    return f"{name}, at {places}, {node.lag.seconds:.1f} s and {node.lag.bytes} bytes behind"


def _save_binlogs(node: TestbedNode, directory: Path) -> None:
    """Copy the node's relay logs and binlogs, the newest first, without files beyond :data:`MOST_BYTES` together."""
    files = [path for path in node.directory.rglob("*") if _LOG_FILE.fullmatch(path.name) and path.is_file()]
    left = MOST_BYTES
    for path in sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True):
        size = path.stat().st_size
        if size <= left:
            left -= size
            copy = directory / path.relative_to(node.directory)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _write_attribute(path: Path, owner: object, name: str) -> None:
    value = getattr(owner, name)
    _write(path, value if isinstance(value, str) else asdict(value))


def _write(path: Path, value: Any) -> None:
    """Write a text, or another value as JSON, to a file. Missing directories are created."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1, default=str) + "\n")
