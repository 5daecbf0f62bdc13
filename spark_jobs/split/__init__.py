"""The split: owners of events, the plan of each range, the placement in files, writing, publishing, and purge."""
