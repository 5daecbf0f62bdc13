"""Comparison of database and table names with rules, as MySQL and MariaDB do it.

The servers and the settings of ``lower_case_table_names`` differ. The table below is from recordings of MySQL 9.7,
MariaDB 10.11 and MariaDB 11.8 (tests/oracle/data/recordings/{mysql,mariadb,mariadb118}-{names,lower-case}):

| names | MySQL | MariaDB |
|---|---|---|
| database rules, FROM of rewrites | bytes (1) | bytes (2) |
| do-table and ignore-table rules | bytes (1) | a collation; before 11.5 only for equal byte lengths |
| wild rules | bytes (1), ``_`` is one byte | a collation, ``_`` is one character |

1. With lower_case_table_names=1 or 2 MySQL compares lower-cased characters, and ``_`` is one character.
2. With lower_case_table_names=1 or 2 MariaDB lower-cases the name and not the rule. A rule with capitals matches
   nothing.

MariaDB's collation is utf8mb3_general_ci before 11.5 and utf8mb3_general1400_as_ci from then on. A JSON file with the
collation's name holds the weight of each character. Characters with equal weights compare as equal.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Hashable
from importlib import resources
from typing import Protocol

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import Family, NameCollation, NameRules


class Collation(Protocol):
    """The way in which one server compares the names of databases and tables.

    Methods return keys. Two names are equal for the server when their keys are equal.
    """

    def database(self, name: str) -> Hashable:
        """Return the key of a database's name that an event holds."""

    def database_rule(self, name: str) -> Hashable:
        """Return the key of a database's name that a do-db, ignore-db or rewrite-db rule holds."""

    def table(self, name: str) -> Hashable:
        """Return the key of the string ``db.table``, which a table rule holds or which names a table."""

    def units(self, text: str) -> str:
        """Return a name or a LIKE pattern with one character for each unit, the bytes or characters that ``_`` matches.

        A unit is a byte in MySQL with lower_case_table_names=0, and a character otherwise.
        """

    def unit(self, character: str) -> str:
        """Return the key of one unit (a byte or character that ``_`` matches), as a character. Equal keys match."""


class ByteCollation:
    """The comparison of MySQL with lower_case_table_names=0, byte for byte."""

    def database(self, name: str) -> Hashable:
        return name

    database_rule = table = database

    def units(self, text: str) -> str:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")

    def unit(self, character: str) -> str:
        return character


class LowerCollation:
    """The comparison of MySQL with lower_case_table_names=1 or 2. Case does not matter, but accents do."""

    def database(self, name: str) -> Hashable:
        return "".join(map(self.unit, name))

    database_rule = table = database

    def units(self, text: str) -> str:
        return text

    def unit(self, character: str) -> str:
        # MySQL lower-cases one character to one character. Some results of str.lower() are longer.
        lower = character.lower()
        return lower if len(lower) == 1 else character


class WeightCollation:
    """The comparison of MariaDB. Table names compare by one of two collations, and database names by bytes."""

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
    """Return the way in which a server compares names.

    Raises OptionError unless lower_case_table_names is 0, 1 or 2.
    """
    if names.lower_case_table_names not in (0, 1, 2):
        raise OptionError(f"lower_case_table_names={names.lower_case_table_names}: it is 0, 1 or 2")
    if names.family == "mariadb":
        return WeightCollation(names.collation, names.lower_case_table_names)
    return LowerCollation() if names.lower_case_table_names else ByteCollation()


_NOT_IN_NAMES = re.compile("[\U00010000-\U0010ffff]")
"""The characters outside utf8mb3, MySQL's character set for identifiers.

MySQL's parser turns each of them into ``?``.
"""


def as_parsed(name: str, family: Family) -> str:
    """Return the name that the server's parser makes of a name in a statement's text.

    MySQL replaces characters outside utf8mb3 by ``?``. MariaDB changes nothing.

    >>> as_parsed("\U0001f642", "mysql")
    '?'
    """
    return _NOT_IN_NAMES.sub("?", name) if family == "mysql" else name


@functools.cache
def _weights(names: NameCollation) -> dict[str, str]:
    text = resources.files("dumpfilter.filter").joinpath(f"{names}.json").read_text("utf-8")
    return {chr(int(c, 16)): chr(int(w, 16)) for c, w in json.loads(text)["weights"].items()}


@functools.cache
def _translation(names: NameCollation) -> dict[int, str]:
    return str.maketrans(_weights(names))


def weight(text: str, names: NameCollation = NameCollation.GENERAL_CI) -> str:
    """Return the weights of a text's characters in a MariaDB collation. Texts of equal weights compare as equal.

    >>> weight("é"), weight("ß"), weight("7")
    ('E', 'S', '7')
    >>> weight("é", NameCollation.GENERAL1400_AS_CI), weight("ß", NameCollation.GENERAL1400_AS_CI)
    ('É', 'ß')
    """
    return text.translate(_translation(names))


@functools.cache
def _alike(names: NameCollation) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for character, weight_ in _weights(names).items():
        found.setdefault(weight_, []).append(character)
    return found


def characters_alike(character: str, names: NameRules) -> list[str]:
    """Return other characters that MariaDB takes for the same character in names of tables.

    >>> characters_alike("e", NameRules("mariadb"))[:3]
    ['E', 'È', 'É']
    """
    key = weight(character, names.collation)
    return [other for other in (key, *_alike(names.collation).get(key, ())) if other != character]
