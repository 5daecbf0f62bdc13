"""The commands of the demonstration."""

from __future__ import annotations

import pytest

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.testbed.demo.run import run


def test_a_failed_command_is_an_error() -> None:
    with pytest.raises(DumpfilterError, match="dumpfilter inspect nowhere: exit code 1"):
        run("inspect", "nowhere")
