"""The status of a running master or slave, or of a relay directory at rest: ``dumpfilter status``."""
