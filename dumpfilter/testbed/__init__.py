"""A running topology: real processes, shaped links, and what one asks of them."""
