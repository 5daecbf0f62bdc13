"""The pytest plugin: fixtures that start topologies, and the artifacts of a failed test.

Enters: markers and options of pytest. Leaves: running topologies as fixtures. It imports testbed and what is below.

pytest imports :mod:`dumpfilter.harness.plugin` in each run of each project that has dumpfilter installed. The
package therefore imports everything but pytest where it is first used.
"""
