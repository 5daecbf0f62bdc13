"""The commands of the demonstration, and its comparisons."""

from __future__ import annotations

import pytest
from rich.console import Console

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.testbed.demo.recorded import SlaveResult, print_results
from dumpfilter.testbed.demo.run import run


def test_a_failed_command_is_an_error() -> None:
    with pytest.raises(DumpfilterError, match="dumpfilter inspect nowhere: exit code 1"):
        run("inspect", "nowhere")


def test_a_slave_that_differs_breaks_the_law(capsys: pytest.CaptureFixture[str]) -> None:
    good = SlaveResult("shop", 100, 900, "bin.000001:4", "0-1-7", ())
    print_results(Console(width=80), [good])
    said = capsys.readouterr().out
    assert "90.0 %" in said
    assert "holds" in said
    with pytest.raises(DumpfilterError, match="the law does not hold: shop: table t: has nothing"):
        print_results(Console(width=80), [good._replace(differences=("shop: table t: has nothing",))])
    assert "broken" in capsys.readouterr().out
