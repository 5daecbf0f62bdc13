"""The verb ``show`` of ``dumpfilter topology``."""

from __future__ import annotations

from typing import Annotated

import typer

Topology = Annotated[
    str, typer.Argument(help="A TOML file, or a short string such as 'm >> web'.", metavar="TOPOLOGY")
]


def show_command(
    topology: Topology,
    string: Annotated[bool, typer.Option("--string", help="Print the short string instead of TOML.")] = False,
) -> None:
    r"""Check a topology and print it, with the nodes that its notation leaves out.

    Nothing is started.

    Examples:

        dumpfilter topology show fan-out.toml --string

        dumpfilter topology show "m >> web\[do-db=shop]; m >> hr >> hr2" \
            > topology.toml
    """
    from dumpfilter.topology import to_string, to_toml, topology_from

    read = topology_from(topology)
    typer.echo(to_string(read) if string else to_toml(read), nl=string)
