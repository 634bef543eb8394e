"""Ethernet frames as values: their headers, checksums, segments and hashes, and flow steering.

Functions of bytes that know no device. What they are given came from a wire or from a guest, and
the only error that leaves them for it is :class:`emu.port.eth.headers.FrameError`.
"""
