"""Spark for the jobs: Java, the context, the workers' environment, tasks and their errors."""
