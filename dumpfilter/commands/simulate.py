"""The command ``dumpfilter simulate``: a topology's traffic and lag, computed from a binlog.

The traffic of each transaction is read in one pass over the binlogs, on threads of this process or on Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dumpfilter.commands.option_groups.group import with_option_groups
from dumpfilter.commands.option_groups.inputs import fetched
from dumpfilter.commands.option_groups.scenarios import ScenarioOptions
from dumpfilter.commands.option_groups.spark import JobReadOptions, SparkOptions
from dumpfilter.errors import OptionError

if TYPE_CHECKING:
    from rich.console import Console

    from dumpfilter.simulation.plan import Plan
    from dumpfilter.simulation.traffic import SetTraffic
    from dumpfilter.spark_jobs.spark.jobs import Runner
    from dumpfilter.topology.model import Topology


@with_option_groups
def simulate_command(
    topology: Annotated[
        str | None,
        typer.Argument(
            help="The topology: a TOML file or a short string (docs/topology.md).", show_default=False
        ),
    ] = None,
    *,
    binlog: Annotated[
        list[str] | None,
        typer.Option(
            help="The binlog set of the topology's origin: its index file or directory, or a running server, "
            "mysql://USER@HOST:PORT/. NODE=SET for several origins.",
            metavar="SET",
            show_default=False,
        ),
    ] = None,
    slaves: Annotated[
        Path | None,
        typer.Option(
            help="Slaves of one master, in place of a topology (TOML, see docs/simulation.md).",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        Literal["local", "spark"], typer.Option(help="Read the binlogs in this process, or on Spark.")
    ] = "local",
    scenarios: ScenarioOptions,
    read: JobReadOptions,
    spark: SparkOptions,
    output: Annotated[
        Path, typer.Option(help="Directory for report.html, results.json and the Parquet tables.")
    ] = Path("simulation"),
    report: Annotated[bool, typer.Option(help="Write report.html, which needs dumpfilter\\[report].")] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the results of other inputs.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the results as JSON instead of tables.")
    ] = False,
) -> None:
    r"""Work out the lag of each slave and the bytes on each link of a topology, from a binlog alone.

    One pass over the binlogs. The bytes are, to the byte, those of the events that dumpfilter master sends. The times
    are those of the transactions' commits. docs/simulation.md describes the model of a link.

    Examples:

        dumpfilter simulate "m >> web\[do-db=shop, rate=2mbit, delay=50ms]" --binlog binlog.index
        dumpfilter simulate topology.toml --binlog binlog.index --sweep rate=512kbit,1mbit,2mbit
        dumpfilter simulate topology.toml --binlog binlog.index --find rate --lag 5s
        dumpfilter simulate --slaves slaves.toml --binlog binlog.index --engine spark
    """
    from rich.console import Console

    from dumpfilter.report.extra import check_report_extra
    from dumpfilter.report.output import REPORT, check_output
    from dumpfilter.simulation.output import write_results
    from dumpfilter.simulation.simulate import simulate
    from dumpfilter.simulation.terminal import print_results
    from dumpfilter.spark_jobs.simulation.evaluation import evaluator

    plan, speeds, sets = _planned(topology, slaves, binlog or [])
    options = scenarios.options(plan.links)
    if report:
        check_report_extra()
    check_output(output, overwrite=overwrite)
    progress = Console(stderr=True)
    with _runner(engine, spark, progress) as run:
        traffics = _read(plan, sets, run, read, {setting.variant.value for setting in options.settings})
        results = simulate(plan, traffics, options, evaluator(run), speeds=speeds)
    write_results(results, output, page=report)
    if json:
        typer.echo(results.model_dump_json(indent=1))
    else:
        console = Console()
        print_results(results, console)
        where = f"report: {output / REPORT}" if report else f"results: {output}"
        console.print(where, soft_wrap=True, highlight=False)
    for warning in results.warnings:
        progress.print(f"[yellow]warning:[/] {warning}", soft_wrap=True)


def _planned(
    topology: str | None, slaves: Path | None, binlogs: Sequence[str]
) -> tuple[Plan, dict[str, float | None], dict[str, str]]:
    """Return the plan, the speed of each recording, and the binlog set of each origin."""
    from dumpfilter.simulation.plan import plan_slaves, plan_topology
    from dumpfilter.topology import topology_from
    from dumpfilter.topology.slaves_file import load_slaves

    if (topology is None) == (slaves is None):
        raise OptionError("give either a topology, such as 'm >> web', or --slaves FILE")
    if slaves is not None:
        plan = plan_slaves(load_slaves(slaves), slaves.stem)
        return plan, {}, _sets(plan, None, binlogs)
    model = topology_from(topology or "")
    plan = plan_topology(model)
    return plan, _speeds(model), _sets(plan, model, binlogs)


def _speeds(topology: Topology) -> dict[str, float | None]:
    from dumpfilter.topology.model import RecordingNode

    return {node.name: node.speed for node in topology.nodes if isinstance(node, RecordingNode)}


def _sets(plan: Plan, topology: Topology | None, binlogs: Sequence[str]) -> dict[str, str]:
    """Return the binlog set of each origin. Raises OptionError for an origin without a set."""
    from dumpfilter.topology.drafts import did_you_mean
    from dumpfilter.topology.model import RecordingNode

    names = {origin: origin for origin in plan.origins}
    found: dict[str, str] = {}
    if topology is not None:
        for origin in plan.origins:
            node = topology[origin]
            if isinstance(node, RecordingNode):
                found[origin] = str(node.binlogs)
            # A workload or recording is often known by the name of the master that reads it.
            names.update(
                (reader.name, origin) for reader in topology.readers(origin) if reader.name not in names
            )
    for text in binlogs:
        name, equals, path = text.partition("=")
        if not equals:
            if len(plan.origins) > 1:
                origins = ", ".join(plan.origins)
                raise OptionError(
                    f"--binlog {text}: the topology has several origins ({origins}); write NODE={text}"
                )
            found[plan.origins[0]] = text
        elif name in names:
            found[names[name]] = path
        else:
            raise OptionError(
                f"--binlog {text}: there is no origin {name!r}{did_you_mean(name, sorted(names))}"
            )
    for origin in plan.origins:
        if origin not in found:
            option = "--binlog SET" if len(plan.origins) == 1 else f"--binlog {origin}=SET"
            raise OptionError(f"the binlog set of {origin} is missing; give it with {option}")
    return found


def _runner(
    engine: Literal["local", "spark"], spark: SparkOptions, progress: Console
) -> AbstractContextManager[Runner]:
    from dumpfilter.spark_jobs.spark.jobs import ThreadRunner, spark_runner

    return spark_runner(spark.settings, progress) if engine == "spark" else nullcontext(ThreadRunner())


def _read(
    plan: Plan, sets: dict[str, str], run: Runner, read: JobReadOptions, variants: set[str]
) -> dict[str, SetTraffic]:
    """Read the traffic of each origin's binlog set."""
    from dumpfilter.simulation.results import Variant
    from dumpfilter.spark_jobs.simulation.traffic import TrafficOptions, read_traffic

    options = TrafficOptions(
        on_corrupt=read.on_corrupt,
        verify=read.verify_checksum,
        range_size=read.range_bytes,
        compressed=bool({Variant.NONE_COMPRESSED, Variant.MASTER_COMPRESSED} & variants),
        split=Variant.SPLIT in variants,
    )
    return {
        origin: read_traffic(fetched([binlogs], None)[0], plan.filters, run, options)
        for origin, binlogs in sets.items()
    }
