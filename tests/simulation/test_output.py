"""The output of a simulation on a terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from dumpfilter.simulation.output import print_results
from dumpfilter.simulation.plan import plan_topology
from dumpfilter.simulation.results import Setting, Variant
from dumpfilter.simulation.simulate import Options, simulate
from dumpfilter.topology import parse_string
from tests.simulation.sets import SECOND, traffic


def test_no_figure_is_cut_in_80_columns() -> None:
    """Lags of hours beside a catch-up time are wider than the terminal."""
    plan = plan_topology(parse_string("m >> web[rate=4kbit, down=2s-3s]"))
    given = traffic([k * SECOND for k in range(600)], [99_999] * 600)
    results = simulate(plan, {plan.origins[0]: given}, Options((Setting(variant=Variant.NONE),)))
    texts = {}
    for width in (80, 300):
        out = StringIO()
        print_results(results, Console(file=out, width=width))
        texts[width] = out.getvalue()
    assert "web" in texts[80]
    assert sorted(texts[80].split()) == sorted(texts[300].split())
    assert max(map(len, texts[80].splitlines())) <= 80
