"""The rules of a real replica's own filter, from the texts in which the replica shows them.

MySQL and MariaDB show the rules of one kind in one text, with commas between them and without quotes. A rule may hold
commas itself: ``--replicate-ignore-db=a,b`` is one rule for a database with the name ``a,b``. So a text with a comma
has several readings, and the master drops only what the replica drops in each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter import Filter, Rule, RuleKind, make_rule
from dumpfilter.master.limits import MAX_NAME, MAX_RULES, MAX_RULES_TEXT

MOST_PIECES = 40
"""The most texts between commas in rules such as do-db, when commas may belong to names.

All neighbouring texts make up rules then, 820 of them for 40 texts.
"""

_MYSQL_PAIRS = re.compile(r"\(([^(),]+),([^(),]+)\)(?:,(?=\()|$)")
_MARIADB_PAIR = re.compile(r"(.+?)->(.+)", re.DOTALL)
_KEEPS = frozenset({RuleKind.DO_DB, RuleKind.DO_TABLE, RuleKind.WILD_DO_TABLE})


@dataclass(frozen=True)
class OwnFilter:
    """The filter that a replica applies itself, as far as the replica shows it."""

    sure: Filter
    """A filter that drops only events that the replica drops, too, in every reading of the texts."""
    likely: Filter
    """The filter if every comma in the replica's texts separates two rules."""
    doubts: tuple[str, ...] = ()
    """The texts with several readings, such as ``REPLICATE_IGNORE_DB=a,b``. Without any, both filters agree."""
    not_dropped: tuple[str, ...] = ()
    """The doubtful texts whose rules drop nothing in ``sure``."""


def read_rules(texts: Mapping[RuleKind, str], *, commas_separate: bool, names: NameRules) -> OwnFilter:
    """Return the filter with the rules that the texts of each kind stand for.

    ``commas_separate`` says that no name has a comma. ``names`` tells how the rules compare names.
    Raises OptionError for a text that cannot be read at all.
    """
    _check_size(texts)
    sure: list[Rule] = []
    likely: list[Rule] = []
    doubts: list[str] = []
    not_dropped: list[str] = []
    for kind in RuleKind:
        text = texts.get(kind, "")
        if not text:
            continue
        if kind is RuleKind.REWRITE_DB:
            # A wrong reading of a rewrite rule gives other names to all other rules, so it must be sure.
            pairs = [make_rule(kind, f"{source}->{target}") for source, target in _pairs(text)]
            sure += pairs
            likely += pairs
            continue
        pieces = text.split(",")
        separate = list(_rules(kind, pieces))
        likely += separate
        if len(pieces) == 1 or commas_separate:
            sure += separate
            continue
        doubts.append(f"{kind.sql_name}={text}")
        if kind in _KEEPS:
            if len(pieces) > MOST_PIECES:
                raise OptionError(
                    f"{kind.sql_name} has {len(pieces)} texts between commas, and commas may belong to names: if no "
                    "name has a comma, say so with commas_separate = true"
                )
            sure += _rules(kind, _neighbours(pieces))
            continue
        not_dropped.append(doubts[-1])
        if kind is RuleKind.IGNORE_DB:
            # MySQL asks wild rules about CREATE DATABASE only without any database rule. No name ends with a space.
            sure.append(make_rule(kind, f"{text} "))
    return OwnFilter(
        Filter(sure, names=names), Filter(likely, names=names), tuple(doubts), tuple(not_dropped)
    )


def _check_size(texts: Mapping[RuleKind, str]) -> None:
    """Raise OptionError for more rules than a filter may have. The replica may be hostile."""
    if sum(map(len, texts.values())) > MAX_RULES_TEXT:
        raise OptionError(f"its rules have more than {MAX_RULES_TEXT} characters together: use wild rules")
    if sum(text.count(",") + 1 for text in texts.values()) > MAX_RULES:
        raise OptionError(f"it has more than {MAX_RULES} rules: use wild rules")
    if any(len(piece) > MAX_NAME for text in texts.values() for piece in text.split(",")):
        raise OptionError(f"it has a rule of more than {MAX_NAME} characters")


def _rules(kind: RuleKind, values: list[str]) -> Iterator[Rule]:
    for value in values:
        try:
            yield make_rule(kind, value)
        except OptionError:
            # No server accepts the value, so the commas around it belong to a longer name.
            continue


def _neighbours(pieces: list[str]) -> list[str]:
    """Return all texts that lie between two commas or ends, with the commas inside them."""
    count = len(pieces)
    return [",".join(pieces[start:end]) for start in range(count) for end in range(start + 1, count + 1)]


def _pairs(text: str) -> list[tuple[str, str]]:
    if text.startswith("("):
        found = list(_MYSQL_PAIRS.finditer(text))
        if sum(len(one[0]) for one in found) == len(text):
            return [(one[1], one[2]) for one in found]
    else:
        pairs = [_MARIADB_PAIR.fullmatch(piece) for piece in text.split(",")]
        if all(pair is not None and "->" not in pair[2] for pair in pairs):
            return [(pair[1], pair[2]) for pair in pairs if pair is not None]
    raise OptionError(
        f"REPLICATE_REWRITE_DB={text!r} can be read in several ways: write the rules into the [[replica]], with rules ="
    )
