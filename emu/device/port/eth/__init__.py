"""Ethernet frames: headers, checksums, segmentation, hashes; the Ethernet port and its wire.

The functions work on bytes and do not depend on the device. Their input is received from a wire or
a guest. For bad input they raise only :class:`emu.device.port.eth.headers.FrameError`.
"""
