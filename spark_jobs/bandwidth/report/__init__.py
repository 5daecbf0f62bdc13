"""The bandwidth report: a self-contained HTML page made from a job's ``Results``."""

from dumpfilter.spark_jobs.bandwidth.report.page import render_report

__all__ = ["render_report"]
