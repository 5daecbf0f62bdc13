"""The verb ``show`` of ``dumpfilter topology``."""

from __future__ import annotations

import typer

from dumpfilter.base.options.settings import Settings, setting


class TopologyArgument(Settings):
    """The topology that the command line names."""

    topology: str = setting(metavar="TOPOLOGY", is_argument=True)
    """A TOML file, or a short string such as 'm >> web'."""


def show_command(named: TopologyArgument) -> None:
    r"""Check a topology and print it in TOML, with the nodes that its notation leaves out.

    Nothing is started.

    Examples:

        dumpfilter topology show fan-out.toml

        dumpfilter topology show "m >> web\[do-db=shop]; m >> hr >> hr2" \
            > topology.toml
    """
    from dumpfilter.topology import to_toml, topology_from

    typer.echo(to_toml(topology_from(named.topology)), nl=False)
