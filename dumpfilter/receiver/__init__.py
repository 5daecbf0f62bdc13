"""The reception of a running server's binlog: a mysql:// URL in, files with the same bytes as the server's out.

Enters: a server's address and a GTID set or position. Leaves: a binlog set on disk that grows. It imports index,
binlog and base.
"""
