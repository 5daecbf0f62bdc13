"""Lint of filters: rules that match nothing, that other rules make ineffective, or that surprise on real binlogs."""
