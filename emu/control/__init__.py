"""The control socket: what a server tells, and what can be told to it, while it runs.

:mod:`emu.control.protocol` describes the messages, :class:`emu.control.client.Client` speaks them.
"""

from emu.control.client import Client, ControlError, sockets

__all__ = ["Client", "ControlError", "sockets"]
