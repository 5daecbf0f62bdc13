"""Shared parts of reports: a self-contained HTML page with styles and plots, Parquet tables, and text formatting."""
