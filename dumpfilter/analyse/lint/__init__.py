"""Checks for filter rules that match nothing, have no effect because of other rules, or surprise on real binlogs."""
