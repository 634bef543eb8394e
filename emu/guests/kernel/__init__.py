"""Kernels of guests: the choice of one, modules, configuration, builds and stack traces."""
