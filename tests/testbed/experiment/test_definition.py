"""The file of an experiment, and the errors that name its keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.simulation.results import Variant
from dumpfilter.testbed.experiment import Change, Phase, load_experiment
from dumpfilter.topology import topology_from

TOPOLOGY = """
[node.w]
workload = { size = "1M", rate = "4mbit" }
[node.m]
from = "w"
[node.web]
from = "m"
link = { rate = "2mbit" }
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "tokyo.toml"
    path.write_text(text)
    return path


def test_a_whole_file(tmp_path: Path) -> None:
    experiment = load_experiment(
        written(
            tmp_path,
            f"""
topology = '''{TOPOLOGY}'''
variants = ["filter-on-master", "no-filter"]
repetitions = 3
limit = "500ms"
patience = "1m"

[[phase]]
name = "load"
for = "10s"

[[phase]]
for = "2s"
cut = "m:web"
killed = ["web"]
links."m:web" = {{ rate = "1mbit", delay = "300ms" }}
""",
        )
    )
    assert experiment.name == "tokyo"
    assert experiment.variants == (Variant.MASTER, Variant.NONE)
    assert (experiment.repetitions, experiment.limit, experiment.patience) == (3, 0.5, 60.0)
    assert experiment.phases == (
        Phase(seconds=10.0, name="load"),
        Phase(seconds=2.0, cut="m:web", killed="web", links={"m:web": Change(rate=1_000_000, delay=0.3)}),
    )
    assert [link.name for link in experiment.topology.links] == ["m:web"]


def test_the_topology_may_be_a_file_beside_the_experiment_or_a_short_string(tmp_path: Path) -> None:
    (tmp_path / "topology.toml").write_text(TOPOLOGY)
    from_file = load_experiment(written(tmp_path, 'topology = "topology.toml"'))
    assert [link.name for link in from_file.topology.links] == ["m:web"]
    short = "m >> web[do-db=shop]"
    from_string = load_experiment(written(tmp_path, f'topology = "{short}"'))
    assert from_string.topology == topology_from(short)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[[phase]]\nfor = "1s"\ncut = "m:wep"', r"phase\[1\].cut: there is no link 'm:wep'.*m:web"),
        ('[[phase]]\nfor = "1s"\nkilled = "wep"', r"phase\[1\].killed: there is no node 'wep'.*web"),
        (
            '[load.m]\nsql = "SELECT 1"\nevery = "1s"\n[[phase]]\nfor = "1s"\nkilled = "m"',
            r"phase\[1\].killed: m has a load.*leave out load.m",
        ),
        ('[[phase]]\nfor = "0s"', r"phase\[1\].for: input should be greater than 0"),
        ("[[phase]]\nfor = 3", r"phase\[1\].for: .*write a text with a unit"),
        ('[[phase]]\nname = "load"', r"phase\[1\].for: is missing"),
        ('[load.web]\nsql = "SELECT 1"\nevery = "1s"', "load.web: web is no server"),
        ('[load.db]\nsql = "SELECT 1"\nevery = "1s"', "load.db: there is no node 'db'"),
        ('[load.db]\nsql = []\nevery = "1s"', "load.db.sql: value should have at least 1 item"),
        ("variants = []", "variants: tuple should have at least 1 item"),
        ('limits = "1s"', "limits: there is no such key. did you mean limit"),
        ('phases = "1s"', "phases: there is no such key. did you mean phase"),
        ('[[phase]]\nseconds = "1s"', r"phase\[1\].seconds: there is no such key"),
        ('[loads.m]\nsql = "SELECT 1"\nevery = "1s"', "loads: there is no such key. did you mean load"),
        ("load = 5", "load: must be a table"),
        ('[phase]\nfor = "1s"', r"phase: is a list of tables: write \[\[phase\]\]"),
    ],
    ids=[
        "link",
        "node",
        "a load's node",
        "time",
        "unit",
        "missing",
        "sql",
        "load",
        "no statement",
        "no variant",
        "key",
        "field",
        "field of a phase",
        "field of loads",
        "no table",
        "phase",
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, f"topology = '''{TOPOLOGY}'''\n{text}")
    with pytest.raises(OptionError, match=told) as raised:
        load_experiment(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_an_experiment_without_any_load_is_refused(tmp_path: Path) -> None:
    topology = '[node.db]\nserver = "mariadb"\n[node.m]\nfrom = "db"\n[node.web]\nfrom = "m"'
    with pytest.raises(OptionError, match="load: nothing would be written"):
        load_experiment(written(tmp_path, f"topology = '''{topology}'''"))
