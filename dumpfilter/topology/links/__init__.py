"""Links: connections between two nodes with a rate, a delay and faults. A proxy between the nodes shapes the
traffic.
"""
