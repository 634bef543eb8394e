"""Packets of one TCP stream that become one: which they are, and how LRO makes one of them."""
