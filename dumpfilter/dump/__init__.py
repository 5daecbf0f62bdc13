"""The decision which binlog events each slave is sent, and the bytes to send, without sockets, threads and clocks.

The input is a segment (a part of a binlog file, scanned into arrays) and a filter's decisions about tables and
statements. The output is chunk plans (the byte ranges to send in each message), counts of events, and messages. Slaves
of dumpfilter read messages of gRPC (``stream``), and real replicas read packets (``packets``). The package imports
filter, index, binlog and base.
"""
