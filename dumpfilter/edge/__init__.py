"""The edge: a slave that serves what it received to other slaves and to real replicas, from its relay logs.

Enters: the options of a slave and of its ports. Leaves: dumps for slaves and real replicas. It imports slave, master
and all below.

The edge joins the reading half of a master (:mod:`dumpfilter.master`) with the channels of a slave
(:mod:`dumpfilter.slave`). Each channel with a port gets a binlog store over its relay log, a shared reader and a
register. Everything that a slave or replica gets is read from the relay log.
"""
