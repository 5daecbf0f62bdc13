"""The pytest plugin: fixtures that start replication topologies for tests, and the artifacts of a failed test.

Enters: markers and options of pytest. Leaves: running topologies as fixtures. The package imports testbed and the
packages below.

pytest imports :mod:`dumpfilter.harness.plugin` in each run of each project that has dumpfilter installed. The package
therefore imports everything but pytest lazily.
"""
