"""One script a claim; see README.md."""
