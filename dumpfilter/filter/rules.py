"""Rules, as the options of a server spell them (``--replicate-do-db`` and its kin)."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple

from dumpfilter.errors import OptionError


class RuleKind(enum.Enum):
    """The seven kinds; the value is the option's name."""

    DO_DB = "replicate-do-db"
    IGNORE_DB = "replicate-ignore-db"
    DO_TABLE = "replicate-do-table"
    IGNORE_TABLE = "replicate-ignore-table"
    WILD_DO_TABLE = "replicate-wild-do-table"
    WILD_IGNORE_TABLE = "replicate-wild-ignore-table"
    REWRITE_DB = "replicate-rewrite-db"


_TABLE_KINDS = frozenset(
    {RuleKind.DO_TABLE, RuleKind.IGNORE_TABLE, RuleKind.WILD_DO_TABLE, RuleKind.WILD_IGNORE_TABLE}
)


class Rule(NamedTuple):
    """One rule: its kind and the option's value, checked by :func:`make_rule`."""

    kind: RuleKind
    value: str

    def __str__(self) -> str:
        return f"--{self.kind.value}={self.value}"

    @property
    def pair(self) -> tuple[str, str]:
        """FROM and TO of a rewrite rule."""
        source, _, target = self.value.partition("->")
        return source.rstrip(), target.lstrip()


def make_rule(kind: RuleKind, value: str) -> Rule:
    """A rule, or OptionError with the reason in the server's words.

    >>> make_rule(RuleKind.REWRITE_DB, "shop -> store").pair
    ('shop', 'store')
    """
    option = f"--{kind.value}={value}"
    if not value:
        raise OptionError(f"{option}: a value is missing")
    if "\0" in value:
        raise OptionError(f"{option!r}: a name cannot hold a NUL character")
    if kind in _TABLE_KINDS and "." not in value:
        wanted = "db_pattern.table_pattern" if "wild" in kind.value else "db_name.table_name"
        raise OptionError(f"{option}: could not add the rule: it is not in the form {wanted}")
    if kind is RuleKind.REWRITE_DB:
        source, arrow, target = value.partition("->")
        if not arrow:
            raise OptionError(f"{option}: bad syntax in replicate-rewrite-db: missing '->'")
        if not source.strip():
            raise OptionError(f"{option}: bad syntax in replicate-rewrite-db: empty FROM db")
        if not target.strip():
            raise OptionError(f"{option}: bad syntax in replicate-rewrite-db: empty TO db")
        value = f"{source.strip()}->{target.strip()}"
    return Rule(kind, value)


def parse_option(option: str) -> Rule:
    """A rule from an option in the server's spelling, dashes and underscores alike.

    >>> parse_option("--replicate_wild_do_table=shop.%")
    Rule(kind=<RuleKind.WILD_DO_TABLE: 'replicate-wild-do-table'>, value='shop.%')
    """
    name, equals, value = option.partition("=")
    try:
        kind = RuleKind(name.removeprefix("--").replace("_", "-"))
    except ValueError:
        raise OptionError(
            f"unknown option {name!r}; the filters are: {', '.join('--' + k.value for k in RuleKind)}"
        ) from None
    if not equals:
        raise OptionError(f"{name}: a value is missing; write {name}=VALUE")
    return make_rule(kind, value)


def unique(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules without repetitions, in the order given."""
    return tuple(dict.fromkeys(rules))
