"""The device core: what a function is and does. It does no I/O and takes no time by itself."""
