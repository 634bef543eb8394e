"""Kernels of guests: which to boot, their modules, configuration, builds and stack traces."""
