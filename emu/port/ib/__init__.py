"""The InfiniBand port: its state, what its subnet sees of it, and its management agents."""
