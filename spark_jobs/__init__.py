"""Jobs that read a whole binlog set on Spark or on threads: the split, the bandwidth report, suggested rules, the
traffic of simulations, and the Spark data source ``binlog``.
"""
