"""Experiments that are run for real: a workload, phases and variants, measured through shaped links."""
