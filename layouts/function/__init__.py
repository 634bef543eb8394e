"""Structures of a function as a whole: initialization segment, capabilities, pages, vPorts,
GIDs.
"""
