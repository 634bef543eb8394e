"""MPLS over UDP: tunnels of IP packets that the switch begins and ends, and matches by a label."""

from struct import pack

import pytest
from helpers.device.switches import UPLINK, Switch

from emu.device.port.eth.headers import parse
from emu.driver.ethernet.flow_fields import reformat_fields, to_vport
from emu.driver.ethernet.frames import EthPacket
from layouts.enums.cmd import Op
from layouts.enums.fte import FlowAction
from layouts.enums.packet_reformat import ReformatType
from layouts.steering.flow_match import fte_match_mpls, fte_match_param

MISC_2 = 1 << 3
PORT = 6635
ETHERNET = bytes.fromhex("020000000001 020000000002 0800")
INNER = EthPacket(payload=b"inside" * 20).frame()


def label(number=555, bottom=1, ttl=64):
    return pack(">I", number << 12 | bottom << 8 | ttl)


def headers_of(*labels, port=PORT):
    """Those of a tunnel, as the driver gives them: without lengths, sums and source port."""
    ipv4 = bytes.fromhex("4500 0000 0000 0000 4011 0000 0a000001 0a000002")
    return ETHERNET + ipv4 + pack(">HHHH", 0, port, 0, 0) + b"".join(labels)


def beside(shim):
    param = fte_match_param.new()
    param.misc_parameters_2.outer_first_mpls_over_udp = fte_match_mpls.view(shim)
    return bytes(param)


@pytest.fixture
def switch(clock):
    return Switch(clock)


def reformat(switch, kind, data):
    made = switch.driver.must(Op.ALLOC_PACKET_REFORMAT_CONTEXT, **reformat_fields(kind, data))
    number = made.packet_reformat_id
    return {"also": FlowAction.PACKET_REFORMAT, "beside": {"packet_reformat_id": number}}


def in_tunnel(switch, *labels, port=PORT):
    """A packet that the switch has put into a tunnel."""
    kind = ReformatType.L2_TO_L3_TUNNEL
    switch.entry(**reformat(switch, kind, headers_of(*labels, port=port)))
    (packet,) = switch.passes(INNER)
    return packet


def end(switch, **options):
    """Another table, which ends tunnels."""
    switch.fdb.set_root(switch.second)
    made = reformat(switch, ReformatType.L3_TUNNEL_TO_L2, ETHERNET)
    switch.entry(table=switch.second, **made, **options)


def test_into_a_tunnel(switch):
    packet = in_tunnel(switch, label())
    front = len(headers_of(label()))
    assert packet[front:] == INNER[14:], "without its Ethernet header"
    headers = parse(packet)
    assert headers.end == len(packet)
    assert packet[front - 4 : front] == label()
    assert int.from_bytes(headers.ports[:2], "big") >= 0xC000


@pytest.mark.parametrize("labels", [[label()], [label(7, 0), label(8, 0), label()]])
def test_out_of_a_tunnel(switch, labels):
    packet = in_tunnel(switch, *labels)
    end(switch)
    assert switch.passes(packet) == [ETHERNET + INNER[14:]]
    assert switch.passes(INNER) == [], "it is in no tunnel"


@pytest.mark.hostile
@pytest.mark.parametrize(
    "tail", [b"", b"\0", label(bottom=0), label(bottom=0) * 200, label(), label() + b"\x60",
             label() + b"\xf0" * 40],
)  # fmt: skip
def test_stacks_that_lead_nowhere(switch, tail):
    """The packet is lost, or what is behind the stack passes; the next one is served."""
    end(switch)
    good = headers_of(label()) + INNER[14:]
    bad = headers_of() + tail
    switch.passes(bad.ljust(60, b"\0"))
    good = good[:16] + pack(">H", len(good) - 14) + good[18:]
    assert switch.passes(good) == [ETHERNET + INNER[14:]]


def test_a_label_is_matched(switch):
    packet = in_tunnel(switch, label())
    other = in_tunnel_again(switch, packet)
    fdb, table = switch.fdb, switch.second
    fdb.set_root(table)
    group = fdb.group(table, 0, 3, enable=MISC_2, match_criteria=beside(pack(">I", 0xFFFFF << 12)))
    fdb.entry(table, 0, group, to_vport(UPLINK), value=beside(label(ttl=0, bottom=0)))
    switch.drop_rest(table)
    for one, passes in ((packet, True), (other, False), (INNER, False), (packet, True)):
        assert switch.passes(one) == [one] * passes


def in_tunnel_again(switch, packet):
    """The same packet with another label."""
    return packet.replace(label(), label(556))
