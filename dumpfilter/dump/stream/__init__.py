"""Encoding and decoding of the gRPC messages of a dump, which master and slave share so that both read and write alike.

The modules are about the messages, and about their size.
"""
