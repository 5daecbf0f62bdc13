"""The sub-commands of ``dumpfilter``, one module each."""
