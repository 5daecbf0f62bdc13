"""The start of a topology: servers, masters and slaves for a test, and the links between them.

This module imports little. The keeper, the process that starts the other processes, thus begins its imports at once.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.testbed.directory import taken
from dumpfilter.testbed.keeper import shared_keeper
from dumpfilter.topology.links.client import LinkProcess

if TYPE_CHECKING:
    from dumpfilter.testbed.bed import Testbed
    from dumpfilter.topology.model import Topology

START_TIMEOUT = 60.0
"""The default time limit for the start of one node, seconds."""

WAIT_TIMEOUT = 30.0
"""The default time limit of a wait for nodes, seconds."""


def up(
    topology: Topology | str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    *,
    keep: bool = False,
    hold: bool = False,
    timeout: float = START_TIMEOUT,
    wait_timeout: float = WAIT_TIMEOUT,
    is_command: bool = False,
) -> Testbed:
    """Start a topology, and return when all nodes run.

    Parameters:
        topology: a model, the path of a TOML file, or a short string such as ``m >> web``.
        directory: the directory for all files. It must be empty, new, or the directory of a topology that has ended.
            With None the files are in a temporary directory.
        keep: whether the files stay when the topology ends. A temporary directory then has a name that no later
            topology removes. Without ``keep`` a temporary directory is removed, and in a named one only the logs stay.
        hold: whether recordings (replayed binlogs), workloads (generated binlogs) and scheduled outages begin only with
            :meth:`Testbed.release`.
        timeout: the time limit for the start of one node, seconds.
        wait_timeout: the default time limit of later waits, seconds.
        is_command: whether the process is ``dumpfilter topology up`` (see :func:`.directory.taken`).

    Raises OptionError for a topology that is not valid, and NotRunnable for one that the testbed cannot run. Raises
    ServerMissing if a server is not installed, and StartFailed if a node does not start. Raises TopologyBusy if another
    topology runs in the directory, and TestbedError for a directory with other files.
    """
    keeper = shared_keeper()
    with contextlib.ExitStack() as closing:
        # The logs of an earlier run stay when the new one fails.
        given = None if directory is None else Path(directory)
        place = closing.enter_context(taken(given, keep=keep, is_command=is_command))
        links = closing.enter_context(LinkProcess(place / "links.log"))

        # These imports take about as long as those of the keeper, which run at the same time.
        from dumpfilter.testbed.bed import Testbed
        from dumpfilter.testbed.node import Ground
        from dumpfilter.topology.model import check_topology
        from dumpfilter.topology.notations import topology_from

        checked = topology_from(topology)
        check_topology(checked)
        ground = Ground(
            checked, place, keeper, holds_files=hold, start_timeout=timeout, wait_timeout=wait_timeout
        )
        bed = Testbed(ground, links, closing)
        closing.callback(bed.down)
        bed.start()
        closing.pop_all()
    return bed
