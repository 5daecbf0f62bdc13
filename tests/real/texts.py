"""``python -m tests.real.texts mariadb|mysql``: the text of ``dumpfilter binlog`` gives a server what a replica has.

The texts are of the sets that ``python -m tests.real.stops record`` has kept, with the filters of their replicas. A
client runs each text into an emptied server without ``--force``. The server must then have all that the recorded
replica had at its end. The text of a filter with which the replica stopped must run to its end, unless rows or columns
stopped the replica.
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from dumpfilter.analyse.printing.options import SelectionOptions, TextOptions
from dumpfilter.analyse.printing.print_set import print_binlog
from dumpfilter.filter.filter import FilterOptions
from dumpfilter.filter.rules import parse_option
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.receiver.login import objects_of
from dumpfilter.testbed.servers.server import command_in
from tests.real.server import MYSQL_ROOT
from tests.real.stops import End, Pair, one_pair

OF_DATA = frozenset(
    {1032, 1048, 1052, 1054, 1062, 1072, 1091, 1105, 1364, 1451, 1452, 1505, 1506, 1526, 1677, 13146}
) | {1031, 1814, 3730, 4156}
"""The errors of a replica that depend on rows, columns, or other parts of a definition."""

FAULTS = ("differs", "the replica did", "the replica did not")
"""The ends of the verdicts about texts that are no agreement."""


class Target:
    """The server into which a client runs texts."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._server = pair.replica
        if pair.family == "mysql":
            assert MYSQL_ROOT is not None
            client = [
                *command_in(self._server.program.root, str(MYSQL_ROOT / "usr/bin/mysql")),
                "--no-defaults",
            ]
            client.append(f"--character-sets-dir={MYSQL_ROOT / 'usr/share/mysql/charsets'}")
        else:
            client = ["mariadb", "--no-defaults"]
        self._client = [
            *client,
            "-uroot",
            f"--socket={self._server.socket}",
            "--binary-mode",
            "--local-infile=1",
        ]

    def run(
        self, binlog: Path, end: End, *, lower_case: bool, skip_gtids: bool = True
    ) -> tuple[str, dict[str, str], str]:
        """Run the text of a filter. Return the client's error, all objects of the server, and the text."""
        server = self._server
        self._pair.empty(server)
        server.sql(*end.made_before or ["DO 0"])
        has = objects_of(f"mysql://root@localhost/?socket={server.socket}") if end.made_before else []
        out, said = io.BytesIO(), io.StringIO()
        filters = FilterOptions(
            rules=tuple(map(parse_option, end.rules)), lower_case_table_names=int(lower_case)
        )
        with tempfile.TemporaryDirectory() as loads:
            options = TextOptions(local_load=Path(loads), target_has=has or None, skip_gtids=skip_gtids)
            print_binlog(
                BinlogSet.open([binlog]), filters, SelectionOptions(), options, out, Console(file=said)
            )
            done = subprocess.run(self._client, input=out.getvalue(), capture_output=True, check=False)
        return (
            done.stderr.decode(errors="replace").strip(),
            server.objects(),
            out.getvalue().decode(errors="replace"),
        )


def judged(directory: Path, target: Target) -> Iterator[tuple[str, End, str]]:
    """Yield a verdict for each recorded end of a replica, with the fault if there is one."""
    found = json.loads((directory / "ends.json").read_text())
    for kind in ("ends", "helped"):
        for one in found[kind]:
            end = End(**one)
            error, objects, _ = target.run(directory / "bin.000001", end, lower_case=found["lower_case"])
            yield f"{kind}: {verdict(end, error, objects)}", end, error or _difference(end.has, objects)


def verdict(end: End, error: str, objects: dict[str, str]) -> str:
    """Compare the end of a text with the end of a replica."""
    number = re.search(r"^ERROR (\d+)", error, re.MULTILINE)
    if end.errno in OF_DATA or (end.errno and number and int(number[1]) in OF_DATA):
        return "data stopped the replica" if error else "runs where data stopped the replica"
    if error:
        return "the text stops, the replica did not" if not end.errno else "the text stops, the replica did"
    if end.errno:
        return "runs where the replica stopped"
    return "differs" if _difference(end.has, objects) else "equal"


def _difference(expected: dict[str, str], found: dict[str, str]) -> str:
    # The text makes each database that is the current one of a statement.
    extra = {name for name in found.keys() - expected.keys() if "." in name or "@" in name}
    names = sorted(extra | {name for name in expected if expected[name] != found.get(name)})
    return "; ".join(
        f"{name}: {expected.get(name)!r} on the replica, {found.get(name)!r} here" for name in names
    )


def main() -> None:
    """Run the texts of all kept sets of a family, print the faults, and count the verdicts."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.real.texts", description="Real servers judge texts."
    )
    parser.add_argument("family", choices=("mariadb", "mysql"))
    parser.add_argument("--directory", type=Path, default=Path("stops"), help="default: stops")
    parser.add_argument("--sets", default="*", help="a pattern for the numbers of the sets")
    parser.add_argument("--lower-case", action="store_true", help="servers with lower_case_table_names=1")
    parser.add_argument("--first-port", type=int, default=0, help="the first of a hundred ports to use")
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    with one_pair(options.family, options.first_port, lower_case=options.lower_case) as (pair, _):
        target = Target(pair)
        for path in sorted(options.directory.glob(f"{options.family}-{options.sets}/ends.json")):
            for found, end, fault in judged(path.parent, target):
                counts[found] += 1
                if found.endswith(FAULTS):
                    shown = " ".join([path.parent.name, *end.rules, *end.made_before])
                    print(f"{found}: {shown}: {end.errno} {fault[:600]}", flush=True)
    for found, count in sorted(counts.items()):
        print(f"{found:50} {count:5}")


if __name__ == "__main__":
    # The servers must end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
