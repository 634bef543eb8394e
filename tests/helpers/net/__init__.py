"""The other ends of networks."""
