"""The use of Apache Spark by the jobs: the search for Java, the Spark context, the workers' Python environment, and the
running of tasks."""
