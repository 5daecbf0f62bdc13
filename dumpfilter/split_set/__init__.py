"""The output directory of a split, as other programs read it."""
