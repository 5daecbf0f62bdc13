"""The output directory of a split, as the master, the purge and the `manifest` command read it."""
