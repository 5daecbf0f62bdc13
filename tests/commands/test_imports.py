"""Commands load no large packages that they do not need, so that they answer at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import DATA

_LOADED = """
import sys
from dumpfilter.cli import main
try:
    main()
except SystemExit:
    large = {"numba", "numpy", "pydantic", "grpc", "pandas", "pymysql", "structlog"}
    print(sorted(large & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("arguments", "loaded"),
    [
        ("--help", set()),
        ("status --relay-dir {}", {"pydantic"}),
        ("status --console 127.0.0.1:1", {"pydantic", "pymysql"}),
        ("topology status --directory {}", {"pydantic"}),
        (f"export {DATA}/oracle/mysql-row --output {{}}/events", {"numpy", "pydantic"}),
    ],
)
def test_a_command_loads_only_what_it_needs(arguments: str, loaded: set[str], tmp_path: Path) -> None:
    words = arguments.format(tmp_path).split()
    run = subprocess.run([sys.executable, "-c", _LOADED, *words], capture_output=True, text=True, check=True)
    assert set(eval(run.stderr.splitlines()[-1])) == loaded
