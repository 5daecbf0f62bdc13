"""Errors about TOML files say which key was probably meant."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pydantic import Field

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import MAX_TOML, Model, load_toml


class _Replica(Model):
    user: str
    password: str = ""
    rules: tuple[str, ...] = ()


class _File(Model):
    replica: tuple[_Replica, ...] = ()
    main: _Replica | None = None
    others: dict[str, _Replica] = Field({})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[[replica]]\nuser = "u"\npasword = "x"',
            "replica[1].pasword: there is no such key; did you mean password?",
        ),
        ('[[replicas]]\nuser = "u"', "replicas: there is no such key; did you mean replica?"),
        ('[main]\nuser = "u"\nrule = []', "main.rule: there is no such key; did you mean rules?"),
        (
            '[others."m:web"]\nuser = "u"\nrule = []',
            "others.m:web.rule: there is no such key; did you mean rules?",
        ),
        ('[[replica]]\nuser = "u"\nrules = "x"', "replica[1].rules: must be a list, as in ['one', 'two']"),
        ('[replica]\nuser = "u"', "replica: is a list of tables: write [[replica]] above each of them"),
        ('[[replica]]\nusre = "u"', "replica[1].usre: there is no such key; did you mean user?"),
        ("[[replica]]", "replica[1].user: is missing"),
        ("zzz = 1", "zzz: there is no such key; there are replica, main, others"),
    ],
)
def test_errors(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(OptionError) as failed:
        load_toml(file, _File)
    assert str(failed.value) == f"{file}: {said}"


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "{a=" * 17 + "1" + "}" * 17,
        "a = " + "[" * 17 + "]" * 17,
        "a." * 200_000 + "a = 1",
        '"a".' * 200_000 + "a = 1",
        "[" + "a . " * 200_000 + "a]",
    ],
    ids=["lists", "tables", "few-lists", "dotted", "quoted", "header"],
)
def test_depth_has_a_limit(tmp_path: Path, text: str) -> None:
    """A dotted key of 200,000 parts would take minutes."""
    path = tmp_path / "deep.toml"
    path.write_text(text)
    begun = time.process_time()
    with pytest.raises(OptionError, match="nested too deeply; the limit is 16"):
        load_toml(path, _File)
    assert time.process_time() - begun < 5


def test_size_has_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text("# " + "x" * MAX_TOML)
    with pytest.raises(OptionError, match="more than the limit"):
        load_toml(path, _File)


def test_addresses_and_names_with_many_points_are_no_depth(tmp_path: Path) -> None:
    path = tmp_path / "wide.toml"
    listed = ", ".join(f'"--replicate-do-table=a.t{number}"' for number in range(100))
    path.write_text(f"replica = [{{ user = 'a.b.c', rules = [{listed}] }}]")
    assert len(load_toml(path, _File).replica[0].rules) == 100
