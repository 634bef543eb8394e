"""Packets in tunnels: what send requests ask for them, what completions tell of them."""
