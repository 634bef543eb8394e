"""What lies between functions: makers of :class:`emu.ports.Wire`."""
