"""Warnings about a filter: rules that match nothing, that another rule makes void, or that surprise on real binlogs."""
