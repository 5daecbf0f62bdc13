"""dumpfilter: a master-side dump filter for MySQL and MariaDB replication.

The package holds what master and slave share; it does no I/O but reading the bytes it is given.

- :mod:`dumpfilter.binlog`: the binlog format v4: reading, the columnar index, writing.
- :mod:`dumpfilter.filter`: the replication filters, compiled to flags per table.
- :mod:`dumpfilter.statement`: what a statement touches.
- :mod:`dumpfilter.dump`: the dump thread, sans-I/O: position and filter in, chunks out.
"""

__version__ = "0.1.0"
