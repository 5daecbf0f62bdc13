"""Ahead-of-time compilation of kernels (Python functions compiled by numba), their loading, and a notice while
compiling.
"""
