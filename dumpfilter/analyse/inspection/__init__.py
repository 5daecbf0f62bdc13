"""The statistics of a binlog set that ``dumpfilter inspect`` prints."""
