"""Emulated functions: serve them, watch them, inject faults, read their traces."""
