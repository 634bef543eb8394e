"""Ethernet: how the queues of a network interface send and receive frames."""
