"""Ports: the link layers' side of a function, and the packets that all link layers carry."""
