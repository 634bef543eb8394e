"""What guests, wires and clients do to cost the host much, for ``hostile.py``."""
