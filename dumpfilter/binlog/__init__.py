"""The binlog format v4: events and their decoders, GTID sets, rows, statements, checksums, writing.

Enters: bytes of binlog files. Leaves: headers, decoded events, row images as columns, the tables that a statement
names, bytes of new events. Of dumpfilter's packages, this package imports ``base`` only.
"""
