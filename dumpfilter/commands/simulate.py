"""The command ``dumpfilter simulate``: the bytes and the lag of replicas in a topology, computed from a binlog.

A topology is a set of masters, slaves and the links between them. The bytes of each transaction are read in one pass
over the binlogs, on threads of this process or on Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.options.values import parse_rate, parse_time
from dumpfilter.commands import option_groups as shared
from dumpfilter.spark_jobs.options import ReadOptions

if TYPE_CHECKING:
    from dumpfilter.simulation.plan import Plan
    from dumpfilter.simulation.simulate import Options


class Inputs(Settings):
    """The inputs of ``dumpfilter simulate``: a topology (masters, slaves and their links) or a file of slaves, and the
    binlogs.
    """

    topology: str | None = setting(None, show_default=False, is_argument=True)
    """The topology: a TOML file or a short string (docs/topology.md)."""
    binlog: list[str] | None = setting(None, metavar="SET", show_default=False)
    """The binlog set of the topology's origin: its index file or directory, also as an s3a:, hdfs: or file: address, or
    a running server, mysql://USER@HOST:PORT/. NODE=SET for several origins."""
    slaves: Path | None = setting(None, show_default=False)
    """Slaves of one master, in place of a topology (TOML, see docs/simulation.md)."""

    def planned(self) -> tuple[Plan, dict[str, str], dict[str, float | None]]:
        """Return the inputs of the simulation: a plan, binlog sets, and replay speeds. Raises OptionError for an
        invalid topology or slaves file, and unless exactly one of both is given.

        The plan has the nodes and links of the topology, or of the file of slaves. The second member maps the name of
        each origin (a node that writes a binlog) to its binlog set. The third maps the name of each node that replays
        recorded binlogs to its speed. The speed is a factor, 1 for the original pace; None: as fast as possible.
        """
        from dumpfilter.commands.scenarios import binlog_sets
        from dumpfilter.simulation.plan import plan_slaves, plan_topology
        from dumpfilter.topology import topology_from
        from dumpfilter.topology.slaves_file import slaves_of

        if (self.topology is None) == (self.slaves is None):
            raise OptionError("give either a topology, such as 'm >> web', or --slaves FILE")
        binlogs = self.binlog or []
        if self.slaves is not None:
            plan = plan_slaves(slaves_of([self.slaves], []), self.slaves.stem)
            return plan, binlog_sets(plan, None, binlogs), {}
        model = topology_from(self.topology or "")
        plan = plan_topology(model)
        speeds = {node.name: node.speed for node in model.nodes if node.binlogs}
        return plan, binlog_sets(plan, model, binlogs), speeds


class ScenarioOptions(Settings, panel="Scenarios"):
    """The options for the scenarios that a simulation compares.

    A scenario has a variant, the links' rates and delays, and a load (the pace of commits). A variant is a way to
    bring the binlog to slaves, such as filtered on the master.
    """

    variant: list[str] | None = setting(None, metavar="NAME", show_default=False)
    """A way to bring the binlog to the slaves: no-filter, filter-on-slave, filter-on-master, real-replica. Without the
    option all of them, and for sweeps and searches no-filter and filter-on-master."""
    sweep: list[str] | None = setting(None, metavar="WHAT=VALUES", show_default=False)
    """Simulate links with each of some rates or delays: rate=512kbit,1mbit or m:web.delay=0s,50ms."""
    scale_load: str = setting("1", metavar="FACTORS")
    """Multiply the pace of transactions by this factor."""
    find: list[str] | None = setting(None, metavar="WHAT", show_default=False)
    """Find the slowest rate, or the longest delay, with which no transaction lags more than --lag: rate, delay or
    m:web.rate."""
    lag: float = setting("1s", parse=parse_time, metavar="TIME")
    """The limit of the lag. The results tell how long each node's lag was above it."""
    apply_rate: int | None = setting(None, parse=parse_rate, metavar="RATE", show_default=False)
    """The rate at which slaves apply events. The lag then lasts until a transaction is applied."""
    apply_time: float = setting("0s", parse=parse_time, metavar="TIME")
    """The constant time that a slave needs to apply a transaction, in addition to the time for the transaction's
    bytes.
    """
    seed: int = setting(1, min=0)
    """The seed of the links' jitter."""

    def options(self, links: Sequence[str]) -> Options:
        """Return the scenarios (variants, loads, rates and delays) that the simulation computes, and its searches for
        the slowest rate or longest delay, from the values of these command-line options.

        ``links`` has the names of all links (connections between two nodes), such as ``m:web``, which the options may
        name. Raises OptionError for an unknown link or variant, and for a wrong value.
        """
        from dumpfilter.commands import scenarios as S
        from dumpfilter.simulation.flow import Hop
        from dumpfilter.simulation.results import SIMULATED, Variant
        from dumpfilter.simulation.simulate import Options

        chosen = S.parse_variants(self.variant or ())
        varied = chosen or (Variant.NONE, Variant.MASTER)
        loads = S.parse_loads(self.scale_load)
        sweeps = [S.parse_sweep(text, links) for text in self.sweep or ()]
        settings = [*S.settings_of(chosen or SIMULATED, loads)]
        if sweeps:
            settings += S.settings_of(varied, loads, sweeps)
        fixed = round(self.apply_time * 1e9)
        applier = Hop(self.apply_rate, fixed=fixed) if self.apply_rate or fixed else None
        return Options(
            tuple(dict.fromkeys(settings)),
            round(self.lag * 1e6),
            applier,
            self.seed,
            S.searches_of(self.find or (), varied, loads, links),
        )


class SimulationOutput(shared.JsonOption):
    """The options for the output of ``dumpfilter simulate`` and of experiments: the directory of the results, and
    whether the HTML page and JSON are wanted.
    """

    output: Path = Path("simulation")
    """Directory for report.html and results.json."""
    report: bool = True
    """Write report.html."""
    overwrite: bool = False
    """Replace earlier results in the directory."""


def simulate_command(
    inputs: Inputs,
    scenarios: ScenarioOptions,
    read: ReadOptions,
    engine: shared.EngineOptions,
    given: SimulationOutput,
) -> None:
    r"""Work out the lag of each slave and the bytes on each link of a topology, from a binlog alone.

    A topology is a set of sources, masters and slaves, and the links (network connections) between them. The command
    reads the binlogs once. The bytes are exactly those that the master sends, and the times are those of the
    transactions' commits. docs/simulation.md describes the model of a link.

    Examples:

        dumpfilter simulate "m >> web\[rate=2mbit]" --binlog binlog.index
        dumpfilter simulate t.toml --binlog binlog.index --sweep rate=1mbit,2mbit
        dumpfilter simulate t.toml --binlog binlog.index --find rate --lag 5s
    """
    from rich.console import Console

    from dumpfilter.analyse.report.output import check_output
    from dumpfilter.simulation.output import show_results
    from dumpfilter.simulation.simulate import simulate
    from dumpfilter.spark_jobs.engines import ThreadRunner
    from dumpfilter.spark_jobs.simulation import read_traffic

    plan, binlogs, speeds = inputs.planned()
    options = scenarios.options(plan.links)
    check_output(given.output, overwrite=given.overwrite)
    progress = Console(stderr=True)
    with engine.runner(progress, default="local") as run:
        traffics = {
            origin: read_traffic(shared.fetched([binlog], None)[0], plan.filters, run, read)
            for origin, binlog in binlogs.items()
        }
    # The traffic is small. So the nodes are evaluated here, also when Spark has read the binlogs.
    threads = partial(ThreadRunner(console=progress), label="simulating")
    results = simulate(plan, traffics, options, threads, speeds=speeds)
    show_results(results, given.output, progress, page=given.report, json=given.as_json)
