"""The slaves file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.topology.links.shape import PLAIN, LinkShape
from dumpfilter.topology.slaves_file import load_slaves


def test_slaves_files(tmp_path: Path) -> None:
    path = tmp_path / "slaves.toml"
    path.write_text(
        """
        [[slave]]
        name = "eu"
        server_id = 11
        count = 2
        rules = ["--replicate-do-db=shop"]
        ignore_server_ids = [3]

        [[slave]]
        name = "us"
        semantics = "effective"
        rules = ["--do=shop.%"]
        link = { rate = "2mbit", delay = "50ms" }
        """
    )
    eu1, eu2, us = load_slaves(path)
    assert (eu1.name, eu1.server_id, eu2.name, eu2.server_id) == ("eu-1", 11, "eu-2", 12)
    assert eu1.origin == OriginFilter(frozenset({3}), own_server_id=11)
    assert us.semantics is FilterSemantics.EFFECTIVE
    assert us.origin is None
    assert (eu2.link, us.link) == (PLAIN, LinkShape(2_000_000, 0.05))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "slave: is missing"),
        ("[[slave]]\nrules = []", r"slave\[1\].name: is missing"),
        ('[[slave]]\nname = "a"\nrule = []', r"slave\[1\].rule: there is no such key"),
        (
            '[[slave]]\nname = "a"\nrules = ["--replicate-do-dbs=x"]',
            r"slave\[1\]: slave 'a': rules: .*do-dbs",
        ),
        ('[[slave]]\nname = "a"\n[[slave]]\nname = "a"', "'a': two slaves have this name"),
        ("[[slave]", "slaves.toml: "),
        (
            '[[slave]]\nname = "a"\ndo_domain_ids = [1]\nignore_domain_ids = [2]',
            r"slave\[1\]: DO_DOMAIN_IDS and IGNORE_DOMAIN_IDS",
        ),
    ],
)
def test_slaves_files_that_cannot_be_used(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "slaves.toml"
    path.write_text(text)
    with pytest.raises(OptionError, match=told) as caught:
        load_slaves(path)
    assert str(path) in str(caught.value)
