"""Running replication topologies for tests: real processes, network links with rate and delay, and their status.

Input: a topology (database servers, masters and slaves of dumpfilter, and the links between them). Output: running
processes, their positions and lags, and a report. The package also checks the law, which says that filtering must be
invisible to a node's data. It imports everything but harness and commands.

The modules that run a topology are imported when one of their names is first used, so that commands that only query a
running topology answer at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dumpfilter.base.lazy import lazy_names
from dumpfilter.testbed.errors import LawBroken as LawBroken
from dumpfilter.testbed.errors import NodeIsDown as NodeIsDown
from dumpfilter.testbed.errors import NotCaughtUp as NotCaughtUp
from dumpfilter.testbed.errors import NotRunnable as NotRunnable
from dumpfilter.testbed.errors import NotUp as NotUp
from dumpfilter.testbed.errors import ServerMissing as ServerMissing
from dumpfilter.testbed.errors import SqlFailed as SqlFailed
from dumpfilter.testbed.errors import StartFailed as StartFailed
from dumpfilter.testbed.errors import TestbedError as TestbedError
from dumpfilter.testbed.errors import TopologyBusy as TopologyBusy
from dumpfilter.testbed.errors import Unknown as Unknown
from dumpfilter.testbed.values import ChannelState as ChannelState
from dumpfilter.testbed.values import Lag as Lag
from dumpfilter.testbed.values import LinkStatus as LinkStatus
from dumpfilter.testbed.values import NodeStatus as NodeStatus
from dumpfilter.testbed.values import Place as Place
from dumpfilter.testbed.values import TestbedStatus as TestbedStatus

if TYPE_CHECKING:
    from dumpfilter.testbed.bed import Testbed as Testbed
    from dumpfilter.testbed.node import TestbedLink as TestbedLink
    from dumpfilter.testbed.node import TestbedNode as TestbedNode
    from dumpfilter.testbed.starting import up as up

__getattr__ = lazy_names(__name__, ("starting", "node", "bed"))
