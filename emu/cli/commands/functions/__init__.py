"""Emulated functions: serve them, watch them, make them fail, read what they did."""
