"""``dumpfilter status``: the status of a running master or slave, or of the relay directory of a stopped slave."""
