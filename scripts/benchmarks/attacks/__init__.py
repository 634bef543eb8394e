"""Attacks of guests, wires and clients that cost the host much, for ``hostile.py``."""
