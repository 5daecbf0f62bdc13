"""The sub-commands of the command line program ``dumpfilter``, one module for each."""
