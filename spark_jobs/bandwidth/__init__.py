"""The bandwidth job, which reads binlogs and reports how much traffic each slave would receive with its filter."""
