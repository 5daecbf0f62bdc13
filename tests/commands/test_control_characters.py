"""Names with control characters in the tables that ``split`` and ``manifest`` print."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from dumpfilter.analyse.split_set import Manifest, NamedBinlog, render_manifest, render_split
from tests.spark_jobs.here import split_here
from tests.support import DATA

HOSTILE = "\x1b[31mred\x07\u202e[bold]x"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Return the manifest of a split with a schema whose name has control characters."""
    output = tmp_path_factory.mktemp("split") / "parts"
    found = split_here(DATA / "oracle" / "mysql-row" / "bin.index", output)
    manifest = Manifest.load(output)
    del found
    renamed = [
        NamedBinlog.model_construct(**{**dict(each), "schema_name": HOSTILE, "name": HOSTILE})
        for each in manifest.binlogs
    ]
    return manifest.model_copy(update={"binlogs": renamed})


def tables(manifest: Manifest, console: Console) -> None:
    render_manifest(manifest, manifest.binlogs, console)


def result(manifest: Manifest, console: Console) -> None:
    render_split(manifest, Path("parts"), console)


@pytest.mark.parametrize("show", [tables, result])
def test_a_name_cannot_command_the_terminal(
    manifest: Manifest, show: Callable[[Manifest, Console], None]
) -> None:
    written = io.StringIO()
    show(manifest, Console(file=written, force_terminal=True, no_color=True, width=300))
    text = written.getvalue()
    assert "\x1b[31m" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert r"\x1b[31mred\x07\u202e[bold]x" in text
