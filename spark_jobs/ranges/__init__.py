"""The division of a binlog set into ranges. A range is a sequence of complete transactions in one file, read by one
task.
"""
