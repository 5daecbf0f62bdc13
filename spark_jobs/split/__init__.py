"""The split of one binlog set into several sets, by schema or by filters, and the purge of their old files."""
