"""Experiments that compare ways to bring a binlog to replicas, with real processes over slowed-down connections
(links). An experiment has a workload, and phases in which links or processes fail.
"""
