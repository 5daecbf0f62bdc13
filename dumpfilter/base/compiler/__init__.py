"""The compiler of kernels (Python functions that numba compiles to machine code): ahead-of-time compilation, loading,
and a notice to the user while kernels are compiled.
"""
