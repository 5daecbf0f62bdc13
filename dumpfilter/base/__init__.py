"""Foundations that every other package imports: errors, options, TLS and passwords, logs, state files, and the compiler
of numerical functions.

Enters: option files, arguments, secrets, texts. Leaves: checked settings, TLS contexts, typed errors, log records. The
package imports no other package of dumpfilter.
"""
