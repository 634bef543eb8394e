"""The control socket: queries a running server and changes its fault rules.

:mod:`emu.server.control.protocol` describes the messages, :class:`emu.server.control.client.Client`
speaks them.
"""

from emu.server.control.client import Client, ControlError, sockets

__all__ = ["Client", "ControlError", "sockets"]
