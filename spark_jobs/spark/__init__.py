"""The use of Apache Spark by jobs: finding Java, starting a Spark context, the workers' Python daemon, and running
tasks.
"""
