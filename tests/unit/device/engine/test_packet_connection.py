"""Packets that are for no connection."""

from helpers.device.forging import request

from emu.device.engine.rc.packets.connection import receive
from emu.device.port.ib.framing import parse
from emu.device.port.packet import OPS
from emu.driver.verbs.channels import Channel
from layouts.enums.qp import QpType
from layouts.wire.bth import PacketKind, Service


def test_datagram_among_the_packets_of_connections(packet_pair):
    """A link that damages opcodes makes one of a message; its queue pair takes it from no wire."""
    right = packet_pair[1]
    channel = Channel(QpType.RC, *packet_pair, mtu=1)
    datagrams = Channel(QpType.UD, *packet_pair).receiver
    packet = parse(memoryview(request(channel, PacketKind.SEND, 0x10, payload=bytes(64))))
    packet.op, packet.qpn = OPS[Service.UD, PacketKind.SEND, True, True, None], datagrams.qpn
    receive(right.hca, packet, 64)
    assert right.hca.link.dropped["wrong transport service"] == 1
    assert right.hca.qps.get(datagrams.qpn).connection is None
