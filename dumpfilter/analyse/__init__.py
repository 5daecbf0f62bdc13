"""Analyses of binlogs for people: ``inspect``, ``explain``, ``lint``, the text output of ``binlog``, and shared parts
of reports.

Input: a binlog set (the binlog files that one index file lists) and filters. Output: results as Python values, tables,
texts and HTML pages. The package imports only lower layers of this project: the core, from ``base`` up to ``dump``, and
``console`` for SQL's reserved words, which a printed statement must quote.
"""
