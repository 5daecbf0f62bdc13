"""The answers of a filter: a verdict (send, drop or undecided), its reason, and the rule that decided."""

from __future__ import annotations

import enum
from typing import NamedTuple

from dumpfilter.filter.rules import Rule


class Verdict(enum.Enum):
    """The answers of a filter about a table's row events or a statement: EXECUTE (send), IGNORE (drop) and UNDECIDED
    (send, because only the slave can decide).
    """

    EXECUTE = "execute"
    IGNORE = "ignore"
    UNDECIDED = "undecided"
    """The master cannot tell, for example because the tables of a statement are unknown. The slave is sent the events
    and decides.
    """

    @property
    def passes(self) -> bool:
        """Whether the master sends the events: true for EXECUTE and UNDECIDED, false for IGNORE."""
        return self is not Verdict.IGNORE


class Step(enum.Enum):
    """The reasons for a filter's decision, such as "a do-db rule matches". The value of a member is a sentence for
    users.

    The reasons of the classic filter (``--replicate-*`` rules) are steps in the flow chart of the reference manual,
    "How Servers Evaluate Replication Filtering Rules".
    """

    NO_RULES = "There are no rules"
    DO_DB = "There are replicate-do-db rules, and the database matches one of them"
    NO_DO_DB = "There are replicate-do-db rules, and the database matches none of them"
    IGNORE_DB = "There are replicate-ignore-db rules, and the database matches one of them"
    NO_IGNORE_DB = "There are replicate-ignore-db rules, and the database matches none of them"
    NO_TABLE_RULES = "There are no replicate-*-table rules"
    DO_TABLE = "The table matches a replicate-do-table rule"
    IGNORE_TABLE = "The table matches a replicate-ignore-table rule"
    WILD_DO_TABLE = "The table matches a replicate-wild-do-table rule"
    WILD_IGNORE_TABLE = "The table matches a replicate-wild-ignore-table rule"
    NO_TABLE_MATCHED_DO = (
        "No table matches any rule, and there are replicate-do-table or replicate-wild-do-table rules"
    )
    NO_TABLE_MATCHED = (
        "No table matches any rule, and there are no replicate-do-table or replicate-wild-do-table rules"
    )
    NO_TABLE_ASKED = "The statement updates no table that the replicate-*-table rules are asked about"
    NONE_UPDATED = "The statement has tables and updates none of them"
    DB_WILD_DO = "The database, as 'db.', matches a replicate-wild-do-table rule"
    DB_WILD_IGNORE = "The database, as 'db.', matches a replicate-wild-ignore-table rule"
    DB_NO_WILD_DO = (
        "There are replicate-wild-do-table rules, and the database, as 'db.', matches none of them"
    )
    DB_NO_WILD = "The database, as 'db.', matches no replicate-wild-*-table rule"
    UNKNOWN_TABLES = "Which tables the statement updates cannot be told, so the slave decides"
    # The next members are the reasons of the effective filter (DO, IGNORE and REWRITE rules). They follow the "new
    # semantics" of WL#2516.
    EFFECTIVE_DO = "A DO expression matches the effective database and table"
    EFFECTIVE_IGNORE = "An IGNORE expression matches the effective database and table"
    EFFECTIVE_NEITHER = "No DO and no IGNORE expression matches the effective database and table"
    EFFECTIVE_NOTHING = "The statement has no effect on a database or a table"
    # The next members are the reasons of the filter --binlog-do-db and --binlog-ignore-db of the server that writes the
    # binlog.
    BINLOG_DO_DB = "There are binlog-do-db rules, and the database matches one of them"
    BINLOG_NO_DO_DB = "There are binlog-do-db rules, and the database matches none of them"
    BINLOG_IGNORE_DB = "There are binlog-ignore-db rules, and the database matches one of them"
    BINLOG_NO_IGNORE_DB = "There are binlog-ignore-db rules, and the database matches none of them"
    BINLOG_NO_DB = "There are binlog-*-db rules, and there is no current database"
    STATEMENT_KIND = "The kind of statement is among those asked for, or left out"
    NEVER_FILTERED = "Events of this kind are never filtered"
    # The next members are the reasons of an imposed filter that is stricter than its rules.
    WRITES_FORBIDDEN = "The statement writes only tables whose rows the imposed filter drops"
    WRITES_FORBIDDEN_TOO = "The statement writes tables whose rows the imposed filter drops, and other tables"


class Decision(NamedTuple):
    """A filter's verdict about a table's row events or a statement, with the reason, the rule that decided and the name
    that matched.
    """

    verdict: Verdict
    step: Step
    rule: Rule | None = None
    """The rule that decided. None when no rule matched, for example with do-db rules for other databases only."""
    name: str | None = None
    """The name that the filter compared with the rules, after rewrite rules have renamed it: a database, ``db.table``,
    or ``db.`` for a statement such as CREATE DATABASE. None if no name was compared.
    """
