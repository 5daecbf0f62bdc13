"""The bandwidth report, one HTML page with plots and tables that needs no other file and no network."""

from dumpfilter.spark_jobs.bandwidth.report.page import render_report

__all__ = ["render_report"]
