"""Filtering files into files, compared with ``mysqlbinlog --database``, which prints to /dev/null."""

from __future__ import annotations

import shutil
import subprocess
import sys

from bench._common import (
    OUT,
    REPOSITORY,
    Options,
    Report,
    binlogs,
    do_db,
    interleaved,
    keeping,
    timed,
    warm,
)
from bench._servers import binlog_program
from dumpfilter.dump.filter_set import filter_set
from dumpfilter.index.fileset import BinlogSet


def run(options: Options) -> bool:
    made = binlogs(options.size)
    warm(made)
    names = keeping(made, 0.1)
    # mysqlbinlog takes one --database. Both programs keep the schema whose share is nearest to a tenth.
    total = sum(made.schemas.values())
    one = min(made.schemas, key=lambda name: abs(made.schemas[name] / total - 0.1))
    target = OUT / "filtered"
    program, command = binlog_program()
    files = [str(path) for path in made.files]

    def ours(wanted: list[str], *, verify: bool) -> float:
        shutil.rmtree(target, ignore_errors=True)
        return timed(
            lambda: filter_set(BinlogSet.open(made.index), do_db(wanted), target, "kept", verify=verify)
        )

    def process() -> float:
        shutil.rmtree(target, ignore_errors=True)
        code = (
            "import sys; from pathlib import Path; from bench._common import do_db; "
            "from dumpfilter.index.fileset import BinlogSet; from dumpfilter.dump.filter_set import filter_set; "
            "filter_set(BinlogSet.open(sys.argv[1]), do_db([sys.argv[2]]), Path(sys.argv[3]), 'kept')"
        )
        return timed(
            lambda: subprocess.run(
                [sys.executable, "-c", code, str(made.index), one, str(target)], check=True, cwd=REPOSITORY
            )
        )

    def theirs(*more: str) -> float:
        return timed(
            lambda: subprocess.run(
                [*command, f"--database={one}", *more, *files],
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )

    report = Report("filter_file", "filtering a file into a file", made.bytes)
    m = report.times(
        interleaved(
            {
                f"filter_set, {one}": lambda: ours([one], verify=False),
                f"filter_set, {one}, checksums verified": lambda: ours([one], verify=True),
                f"filter_set, a tenth ({len(names)} schemas)": lambda: ours(names, verify=False),
                "filter_set, everything": lambda: ours([], verify=False),
                "a whole Python process, checksums verified": process,
                f"{program} --database": theirs,
                f"{program} --database --verify-binlog-checksum": lambda: theirs("--verify-binlog-checksum"),
            },
            options.runs,
        )
    )
    shutil.rmtree(target, ignore_errors=True)
    share = made.schemas[one] / total
    report.row("kept", share, f"{one} has {share:.3f} of the bytes")
    peer = m[f"{program} --database"]
    report.target(f"{program} / filter_set, in the process", peer / m[f"filter_set, {one}"], 5)
    report.target(
        "the same, both verifying checksums",
        m[f"{program} --database --verify-binlog-checksum"] / m[f"filter_set, {one}, checksums verified"],
        5,
    )
    report.row(
        "whole process",
        peer / m["a whole Python process, checksums verified"],
        f"{program} takes {peer / m['a whole Python process, checksums verified']:.2f} times as long as a whole Python process that starts, "  # noqa: E501
        "loads the compiled code, verifies checksums and filters",
    )
    report.note("filter_set writes its output and waits for the disk (fsync); the peer prints to /dev/null")
    return report.print()
