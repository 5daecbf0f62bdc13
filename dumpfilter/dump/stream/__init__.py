"""Encoding and decoding of the gRPC messages of a dump, which master and slave share so that both read and write alike.

:mod:`~dumpfilter.dump.stream.message` encodes and decodes the messages. :mod:`~dumpfilter.dump.stream.pace` chooses
their size by the measured rate of a connection.
"""
