"""Groups of command line options that belong together, each defined once for all sub-commands that have it."""
