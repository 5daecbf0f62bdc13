"""Jobs that read a whole binlog set on Spark or on threads. They split the set into several sets, compute the traffic
of each slave, suggest filter rules, and measure transactions for simulations. The Spark data source ``binlog`` is here,
too.
"""
