"""The Spark job of ``dumpfilter simulate``, which computes the lag and the bytes of planned slaves from a binlog set.
The job counts the bytes and events of each transaction that each slave's filter passes.
"""
