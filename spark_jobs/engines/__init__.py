"""The engines that run a job's tasks: threads of this process, or Spark."""
