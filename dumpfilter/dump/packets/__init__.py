"""The encoding of a dump for a real replica (a MySQL or MariaDB server).

It consists of packets of the client/server protocol. Stand-ins (empty transactions with the GTIDs of dropped ones) and
artificial events, which a server makes without writing them to a file, are added.
"""
