"""Counts of rule hits by kind of rule, as in ``performance_schema.replication_applier_filters.COUNTER``.

A hit is one use of a filter rule: the server evaluates the rule for a name, and the name matches. MySQL 9.7 counts as
follows, for any ``replica_parallel_workers`` (recorded in tests/filter/data). The server evaluates the rules once for
each Table_map event, not for each rows event, and once for each statement. A do-db or ignore-db rule that matches
counts, and after it the table rule that decides. GRANT on a table counts a rule for that table and a rule for the grant
tables. No match counts nothing. A rewrite rule counts once for each Table_map event of the database, and once for each
statement whose default database the rule renames.

MySQL also counts rules that it evaluates while it executes a statement: for triggers, stored functions and DROP
PROCEDURE, and rewrites of the default database of SAVEPOINT and XA keywords. This module does not count those hits.
"""

from __future__ import annotations

from collections import Counter

from dumpfilter.filter.rules import SLAVE_RULE_KINDS, BaseRuleKind

Hits = Counter[BaseRuleKind]
"""The number of times that events matched filter rules, for each kind of rule such as ``--replicate-do-db``."""

KINDS = SLAVE_RULE_KINDS
"""The kinds of filter rule, such as ``--replicate-do-db``. An array of hit counts (rule matches) has one column for
each kind, in this order."""
COLUMN = {kind: number for number, kind in enumerate(KINDS)}
"""For each kind of filter rule, the index of its column in an array of hit counts (rule matches)."""
