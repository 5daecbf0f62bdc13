"""Tests that no text ends a parser with another error than OptionError."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.topology import parse_string, parse_toml_topology, to_toml
from dumpfilter.topology.notations import topology_of_tables

PIECES = (
    *(
        "m",
        "web",
        "hr",
        ">>",
        ";",
        ",",
        "\n",
        "[",
        "]",
        "do-db=shop",
        "rate=",
        "2mbit",
        '"',
        "\\",
        "=",
        "server=mysql",
    ),
    *(
        "role=master",
        "binlogs=x",
        "size=1M",
        "down=1s-2s",
        "→",
        " ",
        "do=a.b",
        "connect=mysql://a@b/",
        "tls=yes",
    ),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(("m", "2mbit", "50ms", "mysql", "")),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("rate", "node", "x")), inner)
    ),
    max_leaves=4,
)
KEYS = st.sampled_from(
    (
        "server",
        "from",
        "rules",
        "link",
        "role",
        "workload",
        "binlogs",
        "speed",
        "connect",
        "init",
        "tls",
        "program",
        "root",
    )
)


@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join) | st.text())
def test_strings(text: str) -> None:
    with contextlib.suppress(OptionError):
        topology = parse_string(text)
        assert parse_toml_topology(to_toml(topology)) == topology


@given(st.text())
def test_toml_texts(text: str) -> None:
    with contextlib.suppress(OptionError):
        parse_toml_topology(text)


@given(st.dictionaries(st.sampled_from(("m", "web", "a b")), VALUES | st.dictionaries(KEYS, VALUES)))
def test_toml_tables(nodes: dict[str, object]) -> None:
    with contextlib.suppress(OptionError):
        topology_of_tables({"node": nodes})
