"""Prometheus metrics of a master and a slave: how they are declared, the recording of latencies, and the HTTP endpoint.

``dumpfilter.master.metrics`` and ``dumpfilter.slave.facts`` declare the metrics themselves.
"""
