"""Datagram services."""
