"""The traffic of a binlog set by transaction, read on threads or on Spark for a simulation."""
