"""Chaos: runs a test once for each failure of a set, and judges how the test has ended."""
