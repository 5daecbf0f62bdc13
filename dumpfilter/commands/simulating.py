"""The inputs of a simulation as the command line names them: the topology or slaves file, and the binlogs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands.option_groups.inputs import fetched

if TYPE_CHECKING:
    from dumpfilter.commands.option_groups.engine import JobReadOptions
    from dumpfilter.simulation.plan import Plan
    from dumpfilter.simulation.results import Variant
    from dumpfilter.simulation.traffic import SetTraffic
    from dumpfilter.spark_jobs.engines.runner import Runner


class Planned(NamedTuple):
    """A planned simulation, and where its transactions are from."""

    plan: Plan
    speeds: dict[str, float | None]
    """The speed at which each recording is replayed."""
    binlogs: dict[str, str]
    """The binlog set of each origin."""


class Inputs(Settings):
    """The topology or the slaves file, and the binlogs of ``dumpfilter simulate``."""

    topology: str | None = setting(None, show_default=False, is_argument=True)
    """The topology: a TOML file or a short string (docs/topology.md)."""
    binlog: list[str] | None = setting(None, metavar="SET", show_default=False)
    """The binlog set of the topology's origin: its index file or directory, also as an s3a:, hdfs: or file: address, or
    a running server, mysql://USER@HOST:PORT/. NODE=SET for several origins."""
    slaves: Path | None = setting(None, show_default=False)
    """Slaves of one master, in place of a topology (TOML, see docs/simulation.md)."""

    def planned(self) -> Planned:
        """Return the plan of the topology or of the slaves file. Raises OptionError."""
        from dumpfilter.simulation.origins import binlog_sets, speeds_of
        from dumpfilter.simulation.plan import plan_slaves, plan_topology
        from dumpfilter.topology import topology_from
        from dumpfilter.topology.slave_options import slaves_of

        if (self.topology is None) == (self.slaves is None):
            raise OptionError("give either a topology, such as 'm >> web', or --slaves FILE")
        binlogs = self.binlog or []
        if self.slaves is not None:
            plan = plan_slaves(slaves_of([self.slaves], []), self.slaves.stem)
            return Planned(plan, {}, binlog_sets(plan, None, binlogs))
        model = topology_from(self.topology or "")
        plan = plan_topology(model)
        return Planned(plan, speeds_of(model), binlog_sets(plan, model, binlogs))


def read_origins(
    given: Planned, run: Runner, read: JobReadOptions, variants: set[Variant]
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
        origin: read_traffic(fetched([binlogs], None)[0], given.plan.filters, run, options)
        for origin, binlogs in given.binlogs.items()
    }
