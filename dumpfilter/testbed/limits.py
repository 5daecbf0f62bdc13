"""The limits of waits. The start of a topology imports this module, so it imports nothing."""

WAIT = 30.0
"""The longest wait for a node to catch up, seconds, if the caller says nothing."""
