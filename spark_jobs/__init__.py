"""The Spark jobs: the split, the bandwidth report, suggested rules, the traffic for simulations, and the data source
``binlog``.
"""
