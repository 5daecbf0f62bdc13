"""The analysis behind ``dumpfilter explain``: which events a filter sends or drops, and by which rule."""
