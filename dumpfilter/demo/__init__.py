"""The demonstration behind ``dumpfilter demo``, and the recording that it runs on."""
