"""The Spark session of a job: Java, the context, the workers' environment, tasks and their errors."""
