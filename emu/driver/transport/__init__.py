"""Sockets to functions and between them."""
