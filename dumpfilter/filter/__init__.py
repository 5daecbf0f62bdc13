"""Replication filters: the rules, and the classes that decide by rules which events of a binlog a slave is sent.

Enters: options such as ``--replicate-do-db=shop``. Leaves: verdicts about tables and statements, with the rule that
decided. The package imports index, binlog and base.
"""
