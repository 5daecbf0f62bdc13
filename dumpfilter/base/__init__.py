"""The ground of every room: errors, options and settings, TLS and passwords, logs, state files, compiled kernels.

Enters: option files, arguments, secrets, texts. Leaves: checked settings, TLS contexts, typed errors, log records. It
imports nothing of dumpfilter.
"""
