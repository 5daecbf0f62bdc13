"""Comparison of names, in which MySQL, MariaDB and the settings of ``lower_case_table_names`` differ.

The table is from recordings of MySQL 9.7, MariaDB 10.11 and MariaDB 11.8
(tests/oracle/data/recordings/{mysql,mariadb,mariadb118}-{names,lower-case}):

| names | MySQL | MariaDB |
|---|---|---|
| databases, FROM | bytes (1) | bytes (2) |
| do-table and ignore-table rules | bytes (1) | a collation; before 11.5 only for equal byte lengths |
| wild rules | bytes (1), ``_`` is one byte | a collation, ``_`` is one character |

1. With lower_case_table_names MySQL compares lower-cased characters, and ``_`` is one character.
2. With lower_case_table_names MariaDB lower-cases the name and not the rule. A rule with capitals matches nothing.

MariaDB's collation is utf8mb3_general_ci before 11.5 and utf8mb3_general1400_as_ci from then on. The weights of each
are in a JSON file of its name.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Hashable
from importlib import resources
from typing import Protocol

from dumpfilter.binlog.format import Family, NameCollation, NameRules
from dumpfilter.errors import OptionError


class Collation(Protocol):
    """The comparison of names of one server."""

    def database(self, name: str) -> Hashable:
        """Return a key for a database's name. Names with equal keys are equal."""

    def database_rule(self, name: str) -> Hashable:
        """Return the key of the name in a database rule or rewrite rule."""

    def table(self, name: str) -> Hashable:
        """Return the key of ``db.table``, in a table rule or for a table."""

    def units(self, text: str) -> str:
        """Return the text as units, one character each. In a wild pattern ``_`` matches one unit."""

    def unit(self, character: str) -> str:
        """Return the key of one unit, as a character."""


class ByteCollation:
    """MySQL with lower_case_table_names=0."""

    def database(self, name: str) -> Hashable:
        return name

    database_rule = table = database

    def units(self, text: str) -> str:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")

    def unit(self, character: str) -> str:
        return character


class LowerCollation:
    """MySQL with lower_case_table_names=1 or 2. Case does not count, accents do."""

    def database(self, name: str) -> Hashable:
        return "".join(map(self.unit, name))

    database_rule = table = database

    def units(self, text: str) -> str:
        return text

    def unit(self, character: str) -> str:
        # MySQL folds one character to one character. Some results of str.lower() are longer.
        lower = character.lower()
        return lower if len(lower) == 1 else character


class WeightCollation:
    """MariaDB. Tables compare by one of its collations, databases by bytes."""

    def __init__(self, names: NameCollation, lower_case_table_names: int) -> None:
        self._weights = _weights(names)
        self._lengths_count = names is NameCollation.GENERAL_CI
        self._lower = bool(lower_case_table_names)

    def database(self, name: str) -> Hashable:
        return name.lower() if self._lower else name

    def database_rule(self, name: str) -> Hashable:
        return name

    def table(self, name: str) -> Hashable:
        weights = "".join(map(self.unit, name))
        if self._lengths_count:
            return len(name.encode("utf-8", "surrogateescape")), weights
        return weights

    def units(self, text: str) -> str:
        return text

    def unit(self, character: str) -> str:
        return self._weights.get(character, character)


def collation_of(names: NameRules) -> Collation:
    """Return the comparison of names of a server. Raises OptionError for a setting that does not exist."""
    if names.lower_case_table_names not in (0, 1, 2):
        raise OptionError(f"lower_case_table_names={names.lower_case_table_names}: it is 0, 1 or 2")
    if names.family == "mariadb":
        return WeightCollation(names.collation, names.lower_case_table_names)
    return LowerCollation() if names.lower_case_table_names else ByteCollation()


_NOT_IN_NAMES = re.compile("[\U00010000-\U0010ffff]")
"""Characters outside utf8mb3, MySQL's character set for identifiers. Its parser reads each as a question mark."""


def as_parsed(name: str, family: Family) -> str:
    """Return a name in a statement's text as the server's parser reads it.

    >>> as_parsed("\U0001f642", "mysql")
    '?'
    """
    return _NOT_IN_NAMES.sub("?", name) if family == "mysql" else name


@functools.cache
def _weights(names: NameCollation) -> dict[str, str]:
    text = resources.files("dumpfilter.filter").joinpath(f"{names}.json").read_text("utf-8")
    return {chr(int(c, 16)): chr(int(w, 16)) for c, w in json.loads(text)["weights"].items()}


def weight(character: str, names: NameCollation = NameCollation.GENERAL_CI) -> str:
    """Return the weight of one character in a collation, as a character.

    >>> weight("é"), weight("ß"), weight("7")
    ('E', 'S', '7')
    >>> weight("é", NameCollation.GENERAL1400_AS_CI), weight("ß", NameCollation.GENERAL1400_AS_CI)
    ('É', 'ß')
    """
    return _weights(names).get(character, character)
