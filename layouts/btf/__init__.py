"""Comparison of our structures with those in the driver's own binaries, by their BTF."""
