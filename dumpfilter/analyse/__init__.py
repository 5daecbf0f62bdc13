"""Analyses of binlogs for people: inspect, explain, lint, the printed text of binlog, and the common parts of reports.

Enters: a binlog set and filters. Leaves: results as values, their tables, texts and pages. The package imports the
core, from base to dump, and the console's SQL, whose reserved words a printed statement must quote.
"""
