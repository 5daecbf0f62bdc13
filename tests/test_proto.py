"""The generated gRPC modules, compared with those that the contract generates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROTO = ROOT / "proto" / "dumpfilter" / "v1" / "dumpfilter.proto"


def test_the_generated_modules_are_up_to_date(tmp_path: Path) -> None:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{ROOT / 'proto'}",
            f"--python_out={tmp_path}",
            f"--pyi_out={tmp_path}",
            f"--grpc_python_out={tmp_path}",
            str(PROTO),
        ],
        check=True,
    )
    for made in (tmp_path / "dumpfilter" / "v1").iterdir():
        assert made.read_text() == (ROOT / "dumpfilter" / "v1" / made.name).read_text(), "run make proto"
