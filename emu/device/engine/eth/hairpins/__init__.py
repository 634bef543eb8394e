"""Hairpin queues: packets that are sent on without the driver."""
