"""The device core: the state and behaviour of a PCI function, without I/O and without a clock of
its own.
"""
