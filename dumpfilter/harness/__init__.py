"""The pytest plugin: fixtures that start replication topologies for tests, and files about each failed test (its
artifacts).

Input: markers and options of pytest. Output: running topologies (servers, masters and slaves) as fixtures. The package
imports testbed and the packages below.

pytest imports :mod:`dumpfilter.harness.plugin` in each run of each project that has dumpfilter installed. The package
therefore imports everything but pytest lazily.
"""
