"""Foundations that every other package imports: errors, options, TLS and passwords, logs, state files, and the
compiler of numerical functions.

Input: option files, command-line arguments, passwords, texts. Output: checked settings, TLS contexts, typed errors,
log records. The package imports no other package of dumpfilter.
"""
