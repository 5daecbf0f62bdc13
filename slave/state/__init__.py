"""The files in a channel's relay directory: relay logs, positions, connection options, and the slave's UUID.

Each module describes one file, and the order of writes that keeps the file usable after a crash.
"""

AFRESH = "to start afresh, remove the relay directory"
"""The last words of error texts about unusable state files, which tell the user the remedy.

The remedy is safe, because the slave can fetch everything in its relay directory from the master again.
"""
