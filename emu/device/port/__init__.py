"""Ports: the link layers of a function, and the packets that all link layers carry."""
