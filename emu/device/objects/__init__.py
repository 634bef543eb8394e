"""The device's objects: the state that each create command leaves behind.

An object keeps its own copy of the context it was created from, so that a query can return it, and
next to it the few values that the engine needs on every access.
"""
