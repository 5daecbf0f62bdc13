"""Counts of the traffic that binlogs cause under any number of filters, made in one pass.

:mod:`~dumpfilter.analyse.traffic.tally` counts the events of segments under conditions such as "this table is sent".
:mod:`~dumpfilter.analyse.traffic.facts` has the result, from which the bytes that each filter sends are computed.
:mod:`~dumpfilter.analyse.traffic.transactions` counts by transaction instead of by time.
"""
