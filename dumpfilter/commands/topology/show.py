"""The verb ``show`` of ``dumpfilter topology``."""

from __future__ import annotations

from typing import Annotated

import typer

Topology = Annotated[
    str, typer.Argument(help="A TOML file, or a short string such as 'm >> web'.", metavar="TOPOLOGY")
]


def show_command(topology: Topology) -> None:
    r"""Check a topology and print it in TOML, with the nodes that its notation leaves out.

    Nothing is started.

    Examples:

        dumpfilter topology show fan-out.toml

        dumpfilter topology show "m >> web\[do-db=shop]; m >> hr >> hr2" \
            > topology.toml
    """
    from dumpfilter.topology import to_toml, topology_from

    typer.echo(to_toml(topology_from(topology)), nl=False)
