"""The pytest plugin: fixtures that start topologies, and the artifacts of a failed test."""
