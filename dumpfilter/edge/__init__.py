"""The edge: a slave that serves its relay logs to other slaves and to real replicas (MySQL and MariaDB servers).

Enters: the options of a slave and of its ports. Leaves: dumps for slaves and real replicas. It imports slave, master
and all below.

The edge joins the classes of a master that serve a binlog (:mod:`dumpfilter.master`) with the replication channels of a
slave (:mod:`dumpfilter.slave`). Each channel with a port gets a binlog store over its relay log, a shared reader and a
register of connected slaves. Everything that a slave or replica gets is read from the relay log.
"""
