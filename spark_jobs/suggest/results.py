"""The data model of the suggestions, which the JSON output shows. All bytes are those of events in a dump."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TableWeight(_Model):
    """The bytes of a table in the binlogs, and the number of slaves that are sent some of them."""

    name: str
    """``schema.table``, ``schema (statements)``, ``(several tables)``, or ``(no table)``."""
    bytes: int
    """The bytes as ``bandwidth`` counts them: a compressed transaction of several tables is ``(several tables)``."""
    bytes_with_parts: int
    """The bytes with the table's share of compressed transactions, an estimate. Without such transactions it is
    ``bytes``."""
    share: float
    """The share of ``bytes_with_parts`` in all bytes, from 0 to 1."""
    slaves: int
    """The number of slaves whose filters let any event of the table pass. This tells nothing about SELECTs."""


class RuleStep(_Model):
    """A suggested rule, with the effect of the rule and of those before it."""

    rule: str
    """The rule as an option: ``--replicate-ignore-table=shop.log``."""
    saving: int
    """The bytes that the rule saves in addition to the rules before it, added up over the slaves."""
    bytes_after: int
    """The bytes that the slaves are sent with this rule and those before it, added up."""
    slaves: int
    """The number of slaves for which the rule saves bytes. The others need not have the rule."""
    tables_dropped: int
    """The tables that a slave no longer gets because of the rule; for all slaves together, added up."""


class RejectedRule(_Model):
    """A rule that would save much, and would break something in this set, as ``dumpfilter lint`` tells."""

    rule: str
    saving: int
    """The bytes that the rule would save, added up over the slaves. With compressed transactions it is an estimate."""
    code: str
    """The code of the fault in docs/lint.md."""
    fault: str
    """The fault, in a sentence."""
    cure: str
    """The change that removes the fault, in a sentence."""
    event: str
    """The first event that shows the fault: file, position and text. Empty if no event shows it."""


class Plan(_Model):
    """The rules suggested for one slave, for slaves with equal filters, or for all slaves together."""

    slaves: tuple[str, ...]
    """The names of the slaves. Empty for the replica without rules that takes the place of missing slaves."""
    semantics: str
    """The semantics of the slaves' rules: ``classic``, or ``effective``."""
    rules: tuple[str, ...]
    """The rules that the slaves have already. Empty for all slaves together."""
    bytes: int
    """The bytes that the slaves are sent now, added up."""
    tables: int
    """The tables whose rows a slave is sent now; for all slaves together, added up."""
    nothing_passes: bool = False
    """Whether the slaves' rules drop all rows and all statements on tables. No rule is then suggested."""
    steps: tuple[RuleStep, ...]
    option_lines: tuple[str, ...]
    """The suggested rules as lines of an option file such as ``my.cnf``."""
    rejected: tuple[RejectedRule, ...] = ()
    """The rules that would save much, and would break something, those that save most first."""


class OnlySchema(_Model):
    """The traffic of a replica that needs one schema only."""

    schema_name: str
    option_lines: tuple[str, ...]
    """The rules. A rule for the name ``db.`` lets CREATE DATABASE pass for routines, events and renamed tables."""
    bytes: int
    fault: str = ""
    """The fault for which these rules are not suggested; empty if lint finds none."""


class Suggestions(_Model):
    """All suggestions for a binlog set. The number ``format`` grows when a field changes its meaning."""

    format: int = 2
    files: int
    bytes: int
    """The bytes that a slave without rules is sent."""
    server_version: str
    checked: bool
    """Whether lint checked the rules. Without the check no rule is rejected."""
    estimates: bool = False
    """Whether ``bytes_with_parts``, ``without_reader`` and the bytes of rejected rules are estimates: compressed
    transactions have several tables, and each table has its share of the compressed bytes."""
    tables: tuple[TableWeight, ...]
    """The tables by their bytes, the largest first."""
    plans: tuple[Plan, ...]
    together: Plan | None
    """The rules that save most if each of them is added to all slaves. Slaves with ``nothing_passes`` are left out.

    None if all slaves that remain have one and the same filter.
    """
    only_schemas: tuple[OnlySchema, ...]
    """Without slaves: what a replica of one schema would be sent. Empty with slaves."""
    without_reader: int
    """The sum of ``bytes_with_parts`` of the tables that no slave is sent."""
    warnings: tuple[str, ...] = ()
    """Warnings about the binlogs, such as skipped files."""
