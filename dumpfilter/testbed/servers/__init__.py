"""Real MariaDB and MySQL servers for tests.

The package finds the servers' programs, starts and ends servers, makes them replicate, and compares their data.
"""
