"""The bandwidth job: the slaves file, measuring, evaluation, results, and the report."""
