"""Hairpin queues: forward received packets without the driver."""
