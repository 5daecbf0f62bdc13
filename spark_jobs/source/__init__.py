"""The implementation of the Spark data source ``binlog``, which presents a binlog set as a table with one row per
event: its options, columns and tasks. A command without Spark exports the same rows to Parquet files.
"""
