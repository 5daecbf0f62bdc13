"""How names compare, which is where MySQL and MariaDB, and lower_case_table_names, differ.

Asked of MySQL 9.7, MariaDB 10.11 and MariaDB 11.8
(tests/oracle/data/recordings/{mysql,mariadb,mariadb118}-{names,lower-case}):

==================  ===========================  ==================================================
what                MySQL                        MariaDB
==================  ===========================  ==================================================
databases, FROM     bytes; with                  bytes; with lower_case_table_names the *name* is
                    lower_case_table_names by    lower-cased first, so that a rule with capitals
                    lower-cased characters       matches nothing
do/ignore-table     as databases                 by a collation; before 11.5 only when the byte lengths are
                                                 equal
wild rules          as databases; ``_`` is one   by a collation; ``_`` is one character
                    *byte* unless
                    lower_case_table_names
==================  ===========================  ==================================================

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
    """Comparing names as one server does."""

    def database(self, name: str) -> Hashable:
        """What a database's name compares as."""

    def database_rule(self, name: str) -> Hashable:
        """What the name in a database or rewrite rule compares as."""

    def table(self, name: str) -> Hashable:
        """What ``db.table`` compares as, in a table rule or of a table."""

    def units(self, text: str) -> str:
        """The text as wild patterns see it: one character for each thing that ``_`` stands for."""

    def unit(self, character: str) -> str:
        """What one such unit compares as."""


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
    """MySQL with lower_case_table_names=1 or 2: without case, with accents."""

    def database(self, name: str) -> Hashable:
        return "".join(map(self.unit, name))

    database_rule = table = database

    def units(self, text: str) -> str:
        return text

    def unit(self, character: str) -> str:
        # one character each: what str.lower() makes longer is not a name's lower case
        lower = character.lower()
        return lower if len(lower) == 1 else character


class WeightCollation:
    """MariaDB: one of its collations for tables, bytes for databases."""

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
    """Return the comparison of names of a server. Raises OptionError when there is no such setting."""
    if names.lower_case_table_names not in (0, 1, 2):
        raise OptionError(f"lower_case_table_names={names.lower_case_table_names}: it is 0, 1 or 2")
    if names.family == "mariadb":
        return WeightCollation(names.collation, names.lower_case_table_names)
    return LowerCollation() if names.lower_case_table_names else ByteCollation()


_NOT_IN_NAMES = re.compile("[\U00010000-\U0010ffff]")
"""MySQL's identifiers are utf8mb3: its parser reads each of these as a question mark."""


def as_parsed(name: str, family: Family) -> str:
    """A name in a statement's text as the server's parser reads it.

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
