"""The pytest plugin: fixtures that start topologies, and the artifacts of a failed test.

pytest imports :mod:`dumpfilter.harness.plugin` in each run of each project that has dumpfilter installed. The package
therefore imports everything but pytest where it is first used.
"""
