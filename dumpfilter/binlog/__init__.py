"""The binlog format v4: events and their decoders, GTID sets, rows, statements, checksums, writing.

Enters: bytes of binlog files. Leaves: headers, decoded events, row images as columns, facts of a statement, bytes of
new events. It imports base alone.
"""
