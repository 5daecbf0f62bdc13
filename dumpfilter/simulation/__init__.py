"""Topologies, simulated from a binlog: bytes and lag of each slave over links that are slow, far or down."""
