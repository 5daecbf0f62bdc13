"""Prometheus metrics of a master and a slave: their definitions, the recording of latencies, and the HTTP endpoint.

``dumpfilter.master.metrics`` and ``dumpfilter.slave.facts`` have the metrics themselves.
"""
