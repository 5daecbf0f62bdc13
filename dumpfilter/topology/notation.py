"""The choice between the notations, for callers that take a file or a short string."""

from __future__ import annotations

import os
from pathlib import Path

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.near import did_you_mean
from dumpfilter.topology.model import Topology
from dumpfilter.topology.short_string import parse_string
from dumpfilter.topology.toml_notation import load_toml_topology


def topology_from(text: str | os.PathLike[str] | Topology) -> Topology:
    """Return the topology of a TOML file or a short string.

    A text with an arrow or a bracket is a short string. Another text is a file if it ends in ``.toml``, has a slash,
    or names an existing file. Raises OptionError.
    """
    if isinstance(text, Topology):
        return text
    if not isinstance(text, str):
        return load_toml_topology(Path(text))
    if ">>" in text or "[" in text:
        return parse_string(text)
    path = Path(text)
    if path.suffix == ".toml" or os.sep in text or path.is_file():
        if not path.exists():
            near = did_you_mean(path.name, [each.name for each in path.parent.glob("*.toml")])
            raise OptionError(f"{text}: there is no such file{near}")
        return load_toml_topology(path)
    return parse_string(text)
