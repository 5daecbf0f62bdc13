"""The traffic of binlogs, counted once for any number of filters.

:mod:`~dumpfilter.analyse.traffic.tally` counts the events of segments under conditions such as "this table is sent".
:mod:`~dumpfilter.analyse.traffic.facts` is the result, which answers how much each filter sends.
:mod:`~dumpfilter.analyse.traffic.transactions` counts by transaction instead of by time.
"""
