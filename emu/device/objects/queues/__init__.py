"""Queues, and the entries in them."""
