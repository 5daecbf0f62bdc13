"""Counts of the bytes and events that a master would send under any number of filters, made in one pass over binlogs.

:mod:`~dumpfilter.analyse.traffic.tally` counts events under conditions such as "this table is sent".
:mod:`~dumpfilter.analyse.traffic.facts` has the result, from which the bytes that each filter sends are computed.
:mod:`~dumpfilter.analyse.traffic.transactions` counts by transaction instead of by time.
"""
