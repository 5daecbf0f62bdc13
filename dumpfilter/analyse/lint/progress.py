"""The pass of lint over a binlog set, with a progress bar for people."""

from __future__ import annotations

from rich.console import Console

from dumpfilter.analyse.lint.gather import gather
from dumpfilter.analyse.lint.knowledge import SetKnowledge
from dumpfilter.base.byte_bar import byte_bar
from dumpfilter.index.fileset import BinlogSet


def gather_with_bar(binlogs: BinlogSet, console: Console, *, verify: bool = True) -> SetKnowledge:
    """Return what lint must know about a binlog set. A bar shows the progress where ``console`` is a terminal.

    Raises BinlogError where the set is damaged.
    """
    with byte_bar(console) as bar:
        task = bar.add_task("reading", total=sum(map(binlogs.size, binlogs.names)))
        return gather(binlogs, verify=verify, progress=lambda size: bar.update(task, advance=size))
