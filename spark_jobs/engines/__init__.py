"""The engines that run a job's tasks. An engine is threads of this process, or Spark."""
