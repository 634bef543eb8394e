"""The InfiniBand port: its state, its attributes seen by the subnet, and its management agents."""
