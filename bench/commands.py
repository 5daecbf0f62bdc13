"""Whole commands beside the servers' own programs, in processor time, over binlogs of rows.

The commands that read a set are measured above one scan of the set in a process that has started. The others are
compared with the program of a server's package that does the same.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import partial

from bench._common import OUT, Options, Report, binlogs, schema_sizes
from bench._servers import Peer, binlog_program, copied, run_silently
from bench.scan import scan
from dumpfilter.binlog.events import FLAGS_OFFSET, LOG_EVENT_BINLOG_IN_USE_F
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.workload import GeneratedSet

SIZE = 64 << 20
SMALL = 64 << 10
"""The sizes of the set, and of one for which a command takes its start alone, bytes."""
ABOVE_SCAN = 1.0
"""The most that a command may take above the scan of the set, seconds of processor time."""
_OUTPUT = OUT / "commands"


def _used(work: Callable[[], object]) -> float:
    """Return the processor time of a call and of the programs that it runs, seconds.

    Other processes of a busy machine do not count.
    """
    shutil.rmtree(_OUTPUT, ignore_errors=True)
    *before, _ = os.times()
    work()
    *after, _ = os.times()
    return sum(after) - sum(before)


def _ours(*words: str) -> list[str]:
    return [sys.executable, "-m", "dumpfilter", *words]


def _fetch(peer: Peer, made: GeneratedSet) -> list[str]:
    """Return the command that receives the generated files from the peer's server."""
    where = f"{peer.server.replication.user}@{peer.server.host}:{peer.server.port}"
    secret = f"password-file={peer.server.replication_password_file}"
    address = f"mysql://{where}/?{secret}&to={made.files[-1].name}&tls=disabled&get-source-public-key=yes"
    return _ours("fetch", address, "--output", str(_OUTPUT), "--sync", "none")


def _check(made: GeneratedSet) -> None:
    """Compare the received files with the server's."""
    for path in made.files:
        # The last generated file ends like that of a crashed server, and a crashed MariaDB leaves the flag in its file.
        ours, theirs = (bytearray(each.read_bytes()) for each in (_OUTPUT / path.name, path))
        ours[FLAGS_OFFSET] &= ~LOG_EVENT_BINLOG_IN_USE_F
        if ours != theirs:
            raise SystemExit(f"{_OUTPUT / path.name} differs from {path}")


def _readers(made: GeneratedSet, schema: str) -> dict[str, list[str]]:
    """Return the commands that read a set and print what they found."""
    rule = f"--replicate-do-db={schema}"
    more = {
        "inspect": [],
        "suggest": [],
        "lint": [rule],
        "explain": [rule],
        "bandwidth": ["--slave", f"one:{rule}", "--output", str(_OUTPUT)],
    }
    return {name: _ours(name, str(made.index), *words) for name, words in more.items()}


def _pairs(made: GeneratedSet, style: Family, schema: str) -> dict[str, tuple[list[str], list[str], float]]:
    """Return commands, their counterparts of a server's package, and the most of the counterparts' processor time."""
    index, output, files = str(made.index), ["--output", str(_OUTPUT)], list(map(str, made.files))
    _, program = binlog_program(style)
    verbose = [*program, "-v", *files]
    raw = _ours("binlog", index, f"--do-db={schema}", "--raw", *output)
    pairs = {
        "binlog -v": (_ours("binlog", index, "-v"), verbose, 2.0),
        "binlog --raw": (raw, [*program, f"--database={schema}", *files], 1.0),
    }
    if style == "mariadb":
        pairs["export --exploded"] = (_ours("export", index, "--exploded", *output), verbose, 1.0)
    return pairs


def run(report: Report, options: Options) -> None:
    assert options.family is not None
    style = options.family
    made, small, large = (binlogs(size, style=style) for size in (SIZE, SMALL, options.size))
    sizes = schema_sizes(made)
    schema = min(sizes, key=lambda name: abs(sizes[name] / sum(sizes.values()) - 0.1))
    name, _ = binlog_program(style)
    readers = _readers(made, schema)
    pairs, starts = (_pairs(each, style, schema) for each in (made, small))
    with copied(large, style) as peer:
        commands = readers | {"fetch --sync none": _fetch(peer, large), peer.name: peer.command}
        for case, (ours, theirs, _) in pairs.items():
            commands |= {case: ours, f"{name}, as {case}": theirs, f"{case}, start": starts[case][0]}
        work = {case: partial(run_silently, command) for case, command in commands.items()}
        cases = {case: partial(_used, each) for case, each in work.items()}
        cases["scan"] = partial(_used, partial(scan, made, verify=True))
        m = report.measure(cases)
        _used(work["fetch --sync none"])
        _check(large)
    shutil.rmtree(_OUTPUT, ignore_errors=True)
    for case in readers:
        report.limit(f"{case} above the scan, s", m[case] - m["scan"], ABOVE_SCAN)
    for case, (*_, wanted) in pairs.items():
        growth = m[case] - m[f"{case}, start"]
        report.limit(f"{case} without its start / {name}", growth / m[f"{name}, as {case}"], wanted)
    report.limit(f"fetch / {peer.name}", m["fetch --sync none"] / m[peer.name], 1.0)
    report.note("times are processor time of whole processes")
