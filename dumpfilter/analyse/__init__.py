"""Answers about binlogs for people: inspect, explain, lint, the text of binlog, and what pages and tables share.

Enters: a binlog set and filters. Leaves: results as values, their tables, texts and pages. It imports the core, from
base to dump, and the console's SQL, whose words a printed statement must quote.
"""
