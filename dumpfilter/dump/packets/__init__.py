"""The stream that a real replica (a MySQL or MariaDB server) reads.

It has packets of the client/server protocol, stand-ins for dropped transactions, and events that a server makes without
writing them to a file.
"""
