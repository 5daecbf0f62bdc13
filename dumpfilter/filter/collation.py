"""How names compare, which is where MySQL and MariaDB, and lower_case_table_names, differ.

Asked of MySQL 9.7 and MariaDB 10.11 (tests/oracle/data/recordings/{mysql,mariadb}-{names,lower-case}):

==================  ===========================  ==================================================
what                MySQL                        MariaDB
==================  ===========================  ==================================================
databases, FROM     bytes; with                  bytes; with lower_case_table_names the *name* is
                    lower_case_table_names by    lower-cased first, so that a rule with capitals
                    lower-cased characters       matches nothing
do/ignore-table     as databases                 by utf8mb3_general_ci, when the byte lengths are
                                                 equal
wild rules          as databases; ``_`` is one   by utf8mb3_general_ci; ``_`` is one character
                    *byte* unless
                    lower_case_table_names
==================  ===========================  ==================================================
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Hashable
from importlib import resources
from typing import Literal, Protocol

from dumpfilter.errors import OptionError

Family = Literal["mysql", "mariadb"]


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


class GeneralCiCollation:
    """MariaDB: utf8mb3_general_ci for tables, bytes for databases."""

    def __init__(self, lower_case_table_names: int) -> None:
        self._lower = bool(lower_case_table_names)

    def database(self, name: str) -> Hashable:
        return name.lower() if self._lower else name

    def database_rule(self, name: str) -> Hashable:
        return name

    def table(self, name: str) -> Hashable:
        return len(name.encode("utf-8", "surrogateescape")), "".join(map(self.unit, name))

    def units(self, text: str) -> str:
        return text

    def unit(self, character: str) -> str:
        return general_ci(character)


def collation_of(family: Family, lower_case_table_names: int) -> Collation:
    """How a server with this setting compares. Raises OptionError when there is no such setting."""
    if lower_case_table_names not in (0, 1, 2):
        raise OptionError(f"lower_case_table_names={lower_case_table_names}: it is 0, 1 or 2")
    if family == "mariadb":
        return GeneralCiCollation(lower_case_table_names)
    return LowerCollation() if lower_case_table_names else ByteCollation()


_NOT_IN_NAMES = re.compile("[\U00010000-\U0010ffff]")
"""MySQL's identifiers are utf8mb3: its parser reads each of these as a question mark."""


def as_parsed(name: str, family: Family) -> str:
    """A name in a statement's text as the server's parser reads it.

    >>> as_parsed("\U0001f642", "mysql")
    '?'
    """
    return _NOT_IN_NAMES.sub("?", name) if family == "mysql" else name


@functools.cache
def _weights() -> dict[str, str]:
    text = resources.files("dumpfilter.filter").joinpath("general_ci.json").read_text("utf-8")
    return {chr(int(c, 16)): chr(int(w, 16)) for c, w in json.loads(text)["weights"].items()}


def general_ci(character: str) -> str:
    """The weight of one character in utf8mb3_general_ci, as a character.

    >>> general_ci("é"), general_ci("ß"), general_ci("7")
    ('E', 'S', '7')
    """
    return _weights().get(character, character)
