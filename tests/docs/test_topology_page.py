"""The topologies of ``docs/topology.md`` are valid, and its three notations say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dumpfilter.commands.topology import topology_app
from dumpfilter.testbed.experiment import load_experiment
from dumpfilter.topology import Topology, parse_string, parse_toml_topology
from tests.docs.tutorial import ROOT

PAGE = (ROOT / "docs" / "topology.md").read_text()
FENCES = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
TOML = [text for language, text in FENCES if language == "toml" and "[node." in text]
EXPERIMENTS = [text for language, text in FENCES if language == "toml" and "[[phase]]" in text]
STRINGS = [
    text
    for language, text in FENCES
    if not language and ">>" in text and "dumpfilter" not in text and "node" not in text
]
PYTHON = [text for language, text in FENCES if language == "python"]


@pytest.mark.parametrize("number", range(len(TOML)))
def test_each_file_has_its_short_string(number: int) -> None:
    assert parse_toml_topology(TOML[number]) == parse_string(STRINGS[number])


def test_the_python_notation_says_the_same() -> None:
    names: dict[str, object] = {}
    exec(PYTHON[0], names)
    assert isinstance(names["topology"], Topology)
    assert names["topology"] == parse_string(STRINGS[0])


def test_the_experiment_is_valid(tmp_path: Path) -> None:
    file = tmp_path / "tokyo.toml"
    file.write_text(EXPERIMENTS[0])
    experiment = load_experiment(file)
    assert [phase.cut for phase in experiment.phases] == [(), ("m:web",)]


def test_commands_of_the_page_have_valid_topologies() -> None:
    commands = re.findall(r'^dumpfilter topology up "(.*?)"', PAGE, re.MULTILINE)
    assert commands
    for text in commands:
        parse_string(text)


def test_the_page_has_every_verb() -> None:
    verbs = [command.name for command in topology_app.registered_commands]
    assert [verb for verb in verbs if f"`{verb}" not in PAGE and f", `{verb}`" not in PAGE] == []
