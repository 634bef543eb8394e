"""The control socket: queries a running server and changes its fault rules.

:mod:`emu.control.protocol` describes the messages, :class:`emu.control.client.Client` speaks them.
"""

from emu.control.client import Client, ControlError, sockets

__all__ = ["Client", "ControlError", "sockets"]
