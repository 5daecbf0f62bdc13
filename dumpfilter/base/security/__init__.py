"""TLS, passwords, the audit log, and checks that a listening port is protected. Masters, slaves and clients of servers
use this package.
"""
