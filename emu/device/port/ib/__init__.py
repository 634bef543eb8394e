"""The InfiniBand port: its state, its subnet attributes, and its management agents."""
