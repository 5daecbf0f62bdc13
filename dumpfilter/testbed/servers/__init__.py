"""Real MariaDB and MySQL servers: their programs, their start and end, replicas, and the comparison of their data."""
