"""The receiver: it takes the binlog of a running MySQL or MariaDB server, as a replica does, and stores its files."""
