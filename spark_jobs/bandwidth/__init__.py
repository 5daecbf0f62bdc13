"""The bandwidth job: it reads a binlog set, and reports how much traffic each slave would receive with its filter."""
