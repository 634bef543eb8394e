"""Ethernet: what the queues of a network interface do with frames."""
