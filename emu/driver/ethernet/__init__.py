"""Ethernet queues, interfaces, steering, frames."""
