"""How kernels are compiled: numba's ``njit``, and a notice for people who wait for a first compilation."""
