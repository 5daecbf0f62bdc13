"""The demonstration of ``dumpfilter demo``, and the recorded binlogs of a MySQL server that it uses."""
