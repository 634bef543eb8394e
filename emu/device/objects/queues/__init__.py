"""Queues, and what waits in them."""
