"""The figures about a binlog set that ``dumpfilter inspect`` prints."""
