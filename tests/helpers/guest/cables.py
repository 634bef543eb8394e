"""Cables of a guest's ports that are pulled and plugged in again."""

from __future__ import annotations

from contextlib import contextmanager

from emu.server.control import Client
from helpers.guest.guests import run


@contextmanager
def pulled(guest, port):
    """The cable of a port, 0 or 1, is out while the context lasts."""
    with Client(guest.control_socket) as control:
        name = control.add(point="load", action="link", function=port)
    run(guest, f"until ip link show eth{port} | grep -q NO-CARRIER; do sleep 0.1; done; sleep 1")
    yield
    with Client(guest.control_socket) as control:
        control.remove(name)
    run(guest, f"until ip link show eth{port} | grep -q LOWER_UP; do sleep 0.1; done; sleep 1")
