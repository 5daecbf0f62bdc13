"""Suggestions of filter rules: which rules would save the most bytes of a binlog set for a group of slaves."""
