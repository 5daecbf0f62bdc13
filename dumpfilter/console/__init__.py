"""The console of a master or slave: a port on which MySQL clients can log in and send SQL statements."""
