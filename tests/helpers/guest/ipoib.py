"""A guest whose two functions have IPoIB, each in a network namespace of its own."""

from __future__ import annotations

from emu.guests import GuestOptions
from helpers.guest.guests import addresses_ready, prepared, two_namespaces

HERE, THERE = "10.0.0.1", "10.0.0.2"
DEVICES = ("connectx6-vf,pkeys=0x8005", "connectx6-vf,pkeys=0x8005")
UP = (
    "modprobe ib_ipoib\n"
    + two_namespaces("ib0", "ib1", HERE, THERE)
    + addresses_ready("ib0", "ib1")
)
DOWN = "ip netns del peer; modprobe -r ib_ipoib"


def two_interfaces(lab, suite):
    """The guest with ib0 and, in the namespace ``peer``, ib1; nothing left of them afterwards."""
    return prepared(lab, GuestOptions(suite=suite, devices=DEVICES), UP, DOWN)
