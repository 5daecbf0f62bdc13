"""The bandwidth report: a self-contained HTML page made from :class:`spark_jobs.traffic.results.Results`."""

from spark_jobs.traffic.report.page import render_report

__all__ = ["render_report"]
