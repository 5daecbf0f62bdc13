"""Links: connections between two nodes with a rate, a delay and faults, through a shaping proxy."""
