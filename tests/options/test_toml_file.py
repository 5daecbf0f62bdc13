"""Errors about TOML files say which key was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from dumpfilter.errors import OptionError
from dumpfilter.options.toml_file import Model, load_toml


class _Replica(Model):
    user: str
    password: str = ""
    rules: tuple[str, ...] = ()


class _File(Model):
    replica: tuple[_Replica, ...] = ()
    main: _Replica | None = None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[[replica]]\nuser = "u"\npasword = "x"',
            "replica[1].pasword: there is no such key; did you mean password?",
        ),
        ('[[replicas]]\nuser = "u"', "replicas: there is no such key; did you mean replica?"),
        ('[main]\nuser = "u"\nrule = []', "main.rule: there is no such key; did you mean rules?"),
        ('[[replica]]\nuser = "u"\nrules = "x"', "replica[1].rules: must be a list, as in ['one', 'two']"),
        ('[[replica]]\nusre = "u"', "replica[1].usre: there is no such key; did you mean user?"),
        ("[[replica]]", "replica[1].user: is missing"),
        ("zzz = 1", "zzz: there is no such key; there are replica, main"),
    ],
)
def test_errors(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    with pytest.raises(OptionError) as failed:
        load_toml(file, _File)
    assert str(failed.value) == f"{file}: {said}"
