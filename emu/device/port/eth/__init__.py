"""Ethernet frames as values, with headers, checksums, segments and hashes; the port and its wire.

Functions of bytes, independent of the device. Their input comes from a wire or from a guest, and
the only error they raise for bad input is :class:`emu.device.port.eth.headers.FrameError`.
"""
