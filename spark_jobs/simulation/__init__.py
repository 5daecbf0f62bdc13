"""The job behind a simulation: count the traffic of each transaction of a binlog set for many filters."""
