"""Packets that nobody has sent: what either end of a channel might get from the other."""

from __future__ import annotations

from emu.device.port.ib.framing import IbRoute
from emu.device.port.packet import OPS, Packet
from layouts.wire import bth
from layouts.wire.bth import PSN_MASK, PacketKind, Service

OPERANDS = ("swap_add", "compare", "swap_add_mask", "compare_mask")


def response(channel, kind, psn, *, is_first=True, is_last=True, payload=b"", **values):
    """A packet that the receiver could have sent to the sender."""
    values = {"msn": 0, "original": 0, "syndrome": bth.ACK_UNLIMITED} | values
    op = OPS[Service[channel.service.name], kind, is_first, is_last, None]
    return _frame(channel.sender, channel.right, op, psn, payload, values)


def request(
    channel, kind, psn, *, is_first=True, is_last=True, payload=b"", ending=None, **values
):  # fmt: skip
    """A packet that the sender could have sent to the receiver."""
    values = dict.fromkeys((*OPERANDS, "va", "rkey", "length"), 0) | values
    op = OPS[Service[channel.service.name], kind, is_first, is_last, ending]
    return _frame(channel.receiver, channel.left, op, psn, payload, values)


def train(channel, psn, count, kind=PacketKind.WRITE, mtu=1024, make=request, **values):
    """A train of middle packets that are full of ones."""
    packet = {"is_first": False, "is_last": False, "payload": b"\1" * mtu}
    frame = make(channel, kind, psn, **packet, **values)
    return frame[:-4] + b"\1" * mtu * (count - 1) + frame[-4:]


def _frame(to, source, op, psn, payload, values):
    packet = Packet().of(op, to.qpn, psn & PSN_MASK)
    for name, value in values.items():
        setattr(packet, name, value)
    route = IbRoute(to.node.lid, source.lid, 0, 0xFFFF, None)
    return route.frame(packet, [memoryview(payload)], len(payload))
