"""The stream that a real replica (a MySQL or MariaDB server) reads: stand-ins for dropped transactions, packets of the
client/server protocol, and events that a server makes without writing them to a file.
"""
