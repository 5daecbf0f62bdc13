"""The command ``dumpfilter systemd-unit``, which prints the unit of a master for systemd."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

import typer

from dumpfilter.base.errors import OptionError

UNIT = "dumpfilter-master.service"
"""The name of the unit's file, in this package and in /etc/systemd/system."""


def systemd_unit_command() -> None:
    """Print a unit with which systemd runs a master as a service: restarts, watchdog, sandbox.

    The unit starts the program of this installation with the options of /etc/dumpfilter/my.cnf (docs/operating.md).

    Examples:

        dumpfilter systemd-unit > /etc/systemd/system/dumpfilter-master.service
    """
    program = Path(sys.executable).with_name("dumpfilter")
    if not program.is_file():
        raise OptionError(
            f"{program} is missing: install dumpfilter with pip, for example into /opt/dumpfilter"
        )
    if set(str(program)) & set("\\'\""):
        raise OptionError(
            f"{program}: systemd starts no program whose path has quotes or backslashes; install dumpfilter elsewhere"
        )
    path = str(program).replace("%", "%%")
    template = resources.files("dumpfilter.commands").joinpath(UNIT).read_text("utf-8")
    typer.echo(template.replace("@PROGRAM@", f'"{path}"' if " " in path else path), nl=False)
