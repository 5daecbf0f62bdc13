"""The common parts of reports: an HTML page that needs no other file and no network, its look, its plots and its texts.

Reports need the extra ``report``, with Jinja (:mod:`dumpfilter.report.extra`).
"""
