"""Random input."""
