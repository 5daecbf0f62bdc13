"""The reception of a running server's binlog into files with the same bytes as the server's.

Enters: a server's mysql:// address and the file to begin with. Leaves: a binlog set on disk that grows. The package
imports filter, index, binlog and base.
"""
