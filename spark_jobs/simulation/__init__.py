"""The jobs of a simulation: the traffic of a binlog set by transaction, and the computation for many slaves."""
