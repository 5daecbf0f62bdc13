"""The nodes that consist of files: recordings that are replayed, and generated workloads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from dumpfilter.analyse.inspection.inspection import inspect_set
from dumpfilter.binlog.workload.generate import START, GeneratedSet, Span, generate
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.testbed.binlogs import WatchedSet, end_of
from dumpfilter.testbed.ground import Ground
from dumpfilter.testbed.node import Feed, Goal, TestbedNode
from dumpfilter.testbed.replay import Replay, Timetable, steady_timetables, timetables
from dumpfilter.testbed.values import NOWHERE, ChannelState, Place
from dumpfilter.topology.model import DEFAULT_STYLE, Node, Workload


class Files(TestbedNode):
    """A node that is a recording (a server's recorded binlogs) or a generated workload, without a process.

    The binlog set is written over time, or is complete at once.
    """

    writes_binlog = True

    def __init__(self, ground: Ground, node: Node, feeds: Sequence[Feed]) -> None:
        super().__init__(ground, node, feeds)
        self._replay: Replay | None = None

    def _begin(self) -> None:
        if self._watched is not None:
            self.release()
        else:
            self._make()

    def release(self) -> None:
        """Continue to write, or begin to write in a topology that was started with ``hold``."""
        if self._replay is not None:
            self._replay.resume()

    def _make(self) -> None:
        node, load, holds = self.node, self.node.workload, self._ground.holds_files
        is_whole = (load.rate if load else node.speed) is None and not holds
        if load:
            binlogs = generated_set(load, self.directory / ("binlog" if is_whole else "generated")).index
        else:
            assert node.binlogs is not None
            binlogs = node.binlogs.absolute()
        # A missing file shall be an error of this node.
        source = BinlogSet.open(binlogs)
        if not is_whole:
            index = source.index.name if source.index is not None else "binlog.index"
            self._replay = Replay(_timetables(node, source), self.directory / "binlog", index)
            self._replay.start(is_paused=holds)
            binlogs = self._replay.index
        self._watched = WatchedSet(binlogs)

    def _end(self, *, in_order: bool) -> None:
        if self._replay is not None:
            self._replay.pause()

    def close(self) -> None:
        if self._replay is not None:
            self._replay.close()
        self.state = "stopped"

    @property
    def is_done(self) -> bool:
        """Whether everything has been written."""
        return self._replay is None or self._replay.is_done

    def wait_done(self, timeout: float) -> bool:
        """Wait until everything has been written. Return False after ``timeout`` seconds."""
        return self._replay is None or self._replay.wait_done(timeout)

    def arguments_for_master(self, feed: Feed, store: Path) -> list[str]:
        return [str(self.watched.source)]

    def goal(self) -> Goal:
        return Goal(self, end_of(self.watched.note()))

    def all_gtids(self) -> str:
        """Return the GTID set of the transactions written so far."""
        opened = self.watched.opened()
        return "" if opened is None else inspect_set(opened, verify=False).gtids

    def _position(self, channels: Sequence[ChannelState], problems: list[str]) -> tuple[Place, str]:
        if self._replay is not None and self._replay.error is not None:
            problems.append(f"{self.name}: the replay has ended: {self._replay.error}")
        return end_of(self.watched.note()) if self._watched is not None else NOWHERE, ""


def generated_set(model: Workload, directory: Path) -> GeneratedSet:
    """Write the binlog set of a generated workload into ``directory``, and return it.

    The commit times are approximately the times at which a replay writes the transactions, so that a simulation of the
    saved files has the same times.
    """
    span = None if model.rate is None else Span(START, max(1, model.size * 8 // model.rate))
    return generate(directory, model.size, style=model.style or DEFAULT_STYLE, seed=model.seed, span=span)


def _timetables(node: Node, source: BinlogSet) -> list[Timetable]:
    if node.workload and node.workload.rate is not None:
        return steady_timetables(source, rate=node.workload.rate)
    speed = None if node.workload else node.speed
    return timetables(source, speed=math.inf if speed is None else speed)
