"""Files in a slave's relay directory: relay logs, positions, configuration, and how each is changed crash-safely."""

AFRESH = "to start afresh, remove the relay directory"
"""The end of an error's text that names the cure: a slave can fetch everything in its relay directory again."""
