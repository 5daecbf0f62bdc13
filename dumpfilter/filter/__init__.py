"""Replication filters: the rules, and the classes that decide by rules which events of a binlog a slave is sent.

Enters: options such as ``--replicate-do-db=shop``. Leaves: verdicts about tables and statements, with the rule that
decided. The package imports index, binlog and base.

The names of its modules are also names of the package, for users' scripts (``from dumpfilter.filter import Filter``).
"""

from dumpfilter.base.lazy import lazy_names

__getattr__ = lazy_names(__name__, ("rules", "base", "effective", "filter"))
