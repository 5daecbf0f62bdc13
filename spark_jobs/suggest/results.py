"""The data model of suggestions, as the JSON output shows it. Bytes are bytes of events in a dump."""

from __future__ import annotations

from dumpfilter.analyse.report.measures import Model


class TableWeight(Model):
    """The bytes of a table in the binlogs, and the number of slaves that receive any of them."""

    name: str
    """``schema.table``, ``schema (statements)``, ``(several tables)``, or ``(no table)``."""
    bytes: int
    """The bytes as ``bandwidth`` counts them, with a compressed transaction of several tables under ``(several
    tables)``.
    """
    bytes_with_parts: int
    """The bytes including the table's estimated share of compressed transactions. Without such transactions it
    equals ``bytes``.
    """
    share: float
    """The fraction of ``bytes_with_parts`` in all bytes, from 0 to 1."""
    slaves: int
    """The number of slaves whose filters pass any event of the table. It says nothing about the use of the table by
    SELECTs.
    """


class RuleStep(Model):
    """A suggested rule, with the bytes that it saves in addition to the rules suggested before it."""

    rule: str
    """The rule as an option, such as ``--replicate-ignore-table=shop.log``."""
    saving: int
    """The bytes that the rule saves in addition to the rules before it, summed over the slaves."""
    bytes_after: int
    """The bytes that the slaves receive with this rule and the rules before it, summed over the slaves."""
    slaves: int
    """The number of slaves for which the rule saves bytes. Other slaves do not need it."""
    tables_dropped: int
    """The number of tables that a slave no longer receives because of the rule. For all slaves together, it is
    summed over them.
    """


class RejectedRule(Model):
    """A rule that would save much, but would break replication of this set according to ``dumpfilter lint``."""

    rule: str
    saving: int
    """The bytes that the rule would save, summed over the slaves. With compressed transactions it is an estimate."""
    code: str
    """The code of the fault in docs/lint.md."""
    fault: str
    """The fault, as a sentence."""
    cure: str
    """The remedy, as a sentence."""
    event: str
    """The first event that shows the fault: file, position and text. Empty if no event shows it."""


class Plan(Model):
    """The rules suggested for one slave, for slaves with equal filters, or for all slaves together, with the bytes that
    these rules save.
    """

    slaves: tuple[str, ...]
    """The names of the slaves. Empty for the replica without rules that stands in if the user gave no slave."""
    semantics: str
    """The semantics of the slaves' rules: ``classic`` or ``effective``."""
    rules: tuple[str, ...]
    """The rules that the slaves already have. Empty for all slaves together."""
    bytes: int
    """The bytes that the slaves currently receive, summed over the slaves."""
    tables: int
    """The number of tables whose rows a slave currently receives. For all slaves together, it is summed over them."""
    nothing_passes: bool = False
    """Whether the slaves' rules drop all rows and all statements on tables. No rule is then suggested."""
    steps: tuple[RuleStep, ...]
    option_lines: tuple[str, ...]
    """The suggested rules as lines of an option file such as ``my.cnf``."""
    rejected: tuple[RejectedRule, ...] = ()
    """The rules that would save much but would break replication, in descending order of savings."""


class Suggestions(Model):
    """All suggestions for a binlog set: the tables with their bytes, and the rules to add for each slave. The version
    number ``format`` grows when the meaning of a field changes.
    """

    format: int = 2
    files: int
    bytes: int
    """The bytes that a slave without rules receives."""
    server_version: str
    checked: bool
    """Whether lint checked the rules. If not, no rule was rejected."""
    estimates: bool = False
    """Whether ``bytes_with_parts``, ``without_reader`` and the savings of rejected rules are estimates. They are if
    a compressed transaction has several tables, each of which counts with a share.
    """
    tables: tuple[TableWeight, ...]
    """The tables in descending order of bytes."""
    plans: tuple[Plan, ...]
    together: Plan | None
    """The rules that save most if each is added to all slaves. Slaves with ``nothing_passes`` are left out.

    None if at most one group of slaves with equal filters remains.
    """
    without_reader: int
    """The sum of ``bytes_with_parts`` over the tables that no slave receives."""
    warnings: tuple[str, ...] = ()
    """Warnings about the binlogs, for example about skipped files."""
