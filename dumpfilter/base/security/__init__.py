"""TLS, passwords, the audit log, and the checks of exposed listeners, for masters, slaves and the clients of
servers.
"""
