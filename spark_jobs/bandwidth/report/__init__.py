"""The bandwidth report: one self-contained HTML page with plots and tables, which needs no network."""

from dumpfilter.spark_jobs.bandwidth.report.page import render_report

__all__ = ["render_report"]
