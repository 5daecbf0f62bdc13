"""The common parts of reports: a self-contained HTML page with its style and plots, Parquet tables, and texts."""
