"""The bandwidth job's parts: the slaves file, measuring, figures, results, the report."""
