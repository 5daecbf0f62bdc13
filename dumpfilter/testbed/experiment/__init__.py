"""Experiments with real processes: a workload, phases with faults and variants, measured over slowed-down links."""
