"""The decision which binlog events a slave gets, and the bytes to send, without sockets, threads and clocks.

Enters: a segment of the index and the flags of a filter. Leaves: chunk plans, what they count, and the messages that
gRPC slaves (stream) and real replicas (packets) read. It imports filter, index, binlog and base.
"""
