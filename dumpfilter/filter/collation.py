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
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from importlib import resources

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import Family, NameCollation, NameRules


@dataclass(frozen=True)
class Collation:
    """The functions by which one server compares the names of schemas and tables. Each function returns the comparison
    key of a name.

    Two names are equal for the server when their comparison keys are equal.
    """

    database: Callable[[str], Hashable]
    """The function that returns the comparison key of a schema's name in an event."""
    database_rule: Callable[[str], Hashable]
    """The function that returns the comparison key of a schema's name in a do-db, ignore-db or rewrite-db rule."""
    table: Callable[[str], Hashable]
    """The function that returns the comparison key of ``db.table``, from a table rule or for a table's name in an
    event.
    """
    units: Callable[[str], str]
    """The function that returns a name or a LIKE pattern with one character for each unit.

    A unit is the byte or character that ``_`` matches. The unit is a byte in MySQL with lower_case_table_names=0, and a
    character otherwise.
    """
    unit: Callable[[str], str]
    """The function that returns the comparison key of one unit (a byte or character that ``_`` matches), as one
    character. Units with equal keys match.
    """

    def folded(self, name: str) -> str:
        """Return a name with each character (or byte) replaced by its comparison key. Characters with equal keys
        compare as equal. A LIKE pattern whose characters are replaced in the same way can then match the name.
        """
        return "".join(map(self.unit, self.units(name)))


def collation_of(names: NameRules) -> Collation:
    """Return the functions by which a server with the settings ``names`` compares names of schemas and tables.

    Raises OptionError unless lower_case_table_names is 0, 1 or 2.
    """
    if names.lower_case_table_names not in (0, 1, 2):
        raise OptionError(f"lower_case_table_names={names.lower_case_table_names}: it is 0, 1 or 2")
    if names.family == "mariadb":
        return _collation_of_weights(names.collation, is_lower=bool(names.lower_case_table_names))
    if names.lower_case_table_names:
        return Collation(lower_case, lower_case, lower_case, str, _lower_character)
    return Collation(str, str, str, _bytes_as_characters, str)


def lower_case(name: str) -> str:
    """Return a name in lower case as MySQL, and MariaDB before 11.5, do it: each character becomes exactly one
    character, and accents are kept.

    >>> lower_case("ÉİⰀ")
    'éiⰀ'
    """
    return "".join(map(_lower_character, name))


def _lower_character(character: str) -> str:
    # Python knows more capitals than these servers. Their LOWER() was compared for each character.
    lower = character.lower()[:1]
    return lower if weight(lower) == weight(character) or character in _ALSO_CAPITALS else character


_ALSO_CAPITALS = "\u2126\u212a\u212b"
"""The signs for ohm, kelvin and angstrom. The servers lower-case them, although the collation gives each a different
weight than its lower-case letter.
"""


def _bytes_as_characters(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _collation_of_weights(names: NameCollation, *, is_lower: bool) -> Collation:
    """Return the functions by which MariaDB compares names.

    Table names compare by their characters' weights in the collation ``names``. With utf8mb3_general_ci, a do-table or
    ignore-table rule also needs the same length in bytes. Database names compare by bytes.

    ``is_lower`` is false for lower_case_table_names 0, and true for 1 and 2. If true, the server lower-cases a
    database's name in an event before the comparison, but not in a rule. Then a database rule with capitals matches
    nothing.
    """
    # Filters are pickled, and pickle cannot store a function that is defined inside another one.
    table = functools.partial(_table_key, names)
    unit = functools.partial(_unit_key, names)
    lower = lower_case if names is NameCollation.GENERAL_CI else str.lower
    return Collation(lower if is_lower else str, str, table, str, unit)


def _table_key(names: NameCollation, name: str) -> Hashable:
    key = weight(name, names)
    return (len(name.encode("utf-8", "surrogateescape")), key) if names is NameCollation.GENERAL_CI else key


def _unit_key(names: NameCollation, character: str) -> str:
    return _weights(names).get(character, character)


_NOT_IN_NAMES = re.compile("[\U00010000-\U0010ffff]")
"""The characters outside utf8mb3, MySQL's character set for identifiers.

MySQL's parser turns each of them into ``?``.
"""


def as_parsed(name: str, family: Family) -> str:
    """Return the name that the server's parser makes of ``name`` in a statement's text.

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
    """Return a text with each character replaced by its weight in a MariaDB collation. Texts with equal results compare
    as equal.

    A weight is one character, which stands for all characters that the collation treats as equal.

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
    """Return the other characters that MariaDB treats as equal to ``character`` in names of tables. ``names`` has the
    collation.

    >>> characters_alike("e", NameRules("mariadb"))[:3]
    ['E', 'È', 'É']
    """
    key = weight(character, names.collation)
    return [other for other in (key, *_alike(names.collation).get(key, ())) if other != character]
