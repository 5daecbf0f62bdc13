"""The traffic of binlogs, counted once for any number of filters.

:mod:`~dumpfilter.analyse.traffic.tally` counts the events of segments under conditions such as "this table is sent".
:mod:`~dumpfilter.analyse.traffic.facts` is the result, from which the bytes that each filter sends are computed.
:mod:`~dumpfilter.analyse.traffic.transactions` counts by transaction instead of by time.
"""
