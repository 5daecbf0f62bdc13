"""The engines of the simulation: the traffic of a binlog set by transaction, and the evaluation of many slaves."""
