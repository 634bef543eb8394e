"""Cables of a guest's ports that are pulled and plugged in again."""

from __future__ import annotations

from contextlib import contextmanager

from emu.server.control import Client
from helpers.guest.guests import run

WAIT = """
until ip link show eth{port} | grep -q {link}; do sleep 0.1; done
bond=/sys/class/net/eth{port}/bonding_slave/mii_status
until ! [ -e $bond ] || grep -q {status} $bond; do sleep 0.1; done
sleep 0.2
"""
"""A bond looks at its ports ten times a second, and the driver follows it."""


@contextmanager
def pulled(guest, port):
    """The cable of a port, 0 or 1, is out while the context lasts."""
    with Client(guest.control_socket) as control:
        name = control.add(point="load", action="link", function=port)
    run(guest, WAIT.format(port=port, link="NO-CARRIER", status="down"))
    yield
    with Client(guest.control_socket) as control:
        control.remove(name)
    run(guest, WAIT.format(port=port, link="LOWER_UP", status="up"))
