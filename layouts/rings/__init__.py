"""Entries of the rings in guest memory: WQEs, CQEs, EQEs."""
