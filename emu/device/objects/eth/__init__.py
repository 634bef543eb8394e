"""Ethernet: its queues, and what steers packets to them."""
