"""How kernels are compiled ahead of time and loaded, and a notice for people who wait for the compilation."""
