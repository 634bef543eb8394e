"""Ports: what a link layer gives a function, and the packets that all of them carry."""
