"""Structures of keys, and of memory on the adapter."""
