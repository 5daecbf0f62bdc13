"""Option groups: options of the command line that belong together, and that several sub-commands may share."""
