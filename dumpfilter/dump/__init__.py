"""The decision which binlog events each slave is sent, and the bytes to send, without sockets, threads and clocks.

Enters: a segment (up to 4 MiB of a binlog file, scanned into arrays) and a filter's decision about each table and
statement. Leaves: chunk plans (the byte ranges to send), counts of events, and the messages that gRPC slaves
(``stream``) and real replicas (``packets``) read. It imports filter, index, binlog and base.
"""
