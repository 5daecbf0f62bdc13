"""Filtering files into files, compared with ``mysqlbinlog --database``, which prints to /dev/null."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import partial

from bench._common import OUT, REPOSITORY, Options, Report, binlogs, do_db
from bench._servers import binlog_program, run_silently
from dumpfilter.dump.filter_set import filter_set
from dumpfilter.index.fileset import BinlogSet


def run(report: Report, options: Options) -> None:
    made = binlogs(options.size)
    # mysqlbinlog takes one --database. Both programs keep the schema whose share is nearest to a tenth.
    total = sum(made.schemas.values())
    one = min(made.schemas, key=lambda name: abs(made.schemas[name] / total - 0.1))
    target = OUT / "filtered"
    program, command = binlog_program()
    files = [str(path) for path in made.files]

    def ours(*, verify: bool = False) -> None:
        shutil.rmtree(target, ignore_errors=True)
        filter_set(BinlogSet.open(made.index), do_db([one]), target, "kept", verify=verify)

    def process() -> None:
        shutil.rmtree(target, ignore_errors=True)
        code = (
            "import sys; from pathlib import Path; from bench._common import do_db; "
            "from dumpfilter.index.fileset import BinlogSet; from dumpfilter.dump.filter_set import filter_set; "
            "filter_set(BinlogSet.open(sys.argv[1]), do_db([sys.argv[2]]), Path(sys.argv[3]), 'kept')"
        )
        arguments = [str(made.index), one, str(target)]
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, cwd=REPOSITORY)

    report.nbytes = made.bytes
    theirs, verifying = f"{program} --database", f"{program} --database --verify-binlog-checksum"
    whole = "a whole Python process, checksums verified"
    m = report.measure(
        {
            f"filter_set, {one}": ours,
            f"filter_set, {one}, checksums verified": partial(ours, verify=True),
            whole: process,
            theirs: partial(run_silently, [*command, f"--database={one}", *files]),
            verifying: partial(
                run_silently, [*command, f"--database={one}", "--verify-binlog-checksum", *files]
            ),
        },
        options.runs,
    )
    shutil.rmtree(target, ignore_errors=True)
    report.row("kept", made.schemas[one] / total, f"{one} has {{:.3f}} of the bytes")
    report.ratio(f"{program} / filter_set, in the process", theirs, f"filter_set, {one}", 5)
    checked = f"filter_set, {one}, checksums verified"
    report.ratio("the same, both verifying checksums", verifying, checked, 5)
    report.row(
        "whole process",
        m[theirs] / m[whole],
        f"{program} takes {{:.2f}} times as long as a whole Python process that starts, loads the compiled code, "
        "verifies checksums and filters",
    )
    report.note("filter_set writes its output and waits for the disk (fsync); the peer prints to /dev/null")
