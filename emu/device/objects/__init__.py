"""The device's objects: the state that each create command leaves behind.

An object keeps a copy of the context that created it, for queries. The few values that the engine
needs on every access are attributes next to the context.
"""
