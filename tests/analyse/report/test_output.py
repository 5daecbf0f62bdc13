"""The output directory of a report, whose files are published together."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dumpfilter.analyse.report.output import RESULTS, check_output, written_together

_WRITING = """
import sys, time
from pathlib import Path
from dumpfilter.analyse.report.output import written_together
with written_together(Path(sys.argv[1])) as beside:
    (beside / "results.json").write_text("of another process")
    print(flush=True)
    time.sleep(600)
"""


@contextmanager
def writing(output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that has written a file of its results, and kill it at the end."""
    process = subprocess.Popen([sys.executable, "-c", _WRITING, output], stdout=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def write(output: Path, text: str) -> None:
    check_output(output, overwrite=True)
    with written_together(output) as beside:
        (beside / RESULTS).write_text(text)


def test_what_another_process_writes_stays(tmp_path: Path) -> None:
    output = tmp_path / "out[1]"
    with writing(output):
        (running,) = tmp_path.glob(".out*.????????????")
        write(output, "old")
        write(output, "new")
        assert (running / RESULTS).read_text() == "of another process"
    assert (output / RESULTS).read_text() == "new"
    assert sorted(tmp_path.iterdir()) == [running, output]


def test_an_error_leaves_the_old_results(tmp_path: Path) -> None:
    output = tmp_path / "out"
    write(output, "old")
    with pytest.raises(ZeroDivisionError), written_together(output):
        raise ZeroDivisionError
    assert (output / RESULTS).read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]


def test_an_interruption_while_the_results_are_published_leaves_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out"
    write(output, "old")
    rename = os.rename

    def interrupted(source: Path, target: Path) -> None:
        rename(source, target)
        if source == output:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(output, "new")
    assert (output / RESULTS).read_text() == "old"
    assert list(tmp_path.iterdir()) == [output]
