"""The encoding of a dump for a real replica (a MySQL or MariaDB server).

The encoded dump consists of packets of the client/server protocol. The packets hold the events, stand-ins (empty
transactions with the GTIDs of dropped ones), and artificial events, which a server makes without writing them to a
file.
"""
