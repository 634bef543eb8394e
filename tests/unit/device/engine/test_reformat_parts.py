"""The part of a packet that a reformat context adds to the key of a kept decision."""

from collections import defaultdict
from itertools import product

import pytest

from emu.device.engine.eth.steering.fields import FIELDS, base
from emu.device.engine.eth.steering.reformat import DECAP, context_of
from emu.device.engine.eth.steering.vlan_tags import third_tag
from emu.device.errors import CmdError
from emu.device.port.eth.headers import FrameError, parse
from emu.driver.ethernet.frames import UDP, EthPacket
from layouts.enums.packet_reformat import ReformatAnchor, ReformatType

MAC_START = ReformatAnchor.MAC_START
L3_TO_L2, INSERT, REMOVE = (
    ReformatType.L3_TUNNEL_TO_L2, ReformatType.INSERT_HDR, ReformatType.REMOVE_HDR
)  # fmt: skip
MACS = bytes(range(12))
IPV4, IPV6, ARP = b"\x08\0", b"\x86\xdd", b"\x08\x06"
TAG, STAG = bytes.fromhex("8100 0007"), bytes.fromhex("88a8 0008")
GRE = bytes.fromhex("0000 0800")
TUNNEL = EthPacket(protocol=47, payload=b"").frame() + bytes.fromhex("0000 6558")
PARTS = {field.part for field in FIELDS.values() if field.part is not None}


def frames():
    """Packets of which some differ in one field only, with tags, tunnels and tags behind tags."""
    payload = bytes(100)
    values = product(
        ((), ((0x8100, 1),), ((0x8100, 0x8100),), ((0x8100, 1), (0x88A8, 2)),
         ((0x8100, 1), (0x8100, 2), (0x8100, 3))),
        (b"\x0a\0\0\x01", b"\x81\0\x08\0", b"\x08\0\x45\0"),
        (0x1234, 0x8100, 0x0800),
        (b"\0\x07\0\x09", b"\0\x07\x81\0"),
    )  # fmt: skip
    for tags, source, identifier, ports in values:
        one = {"tags": tags, "source": source, "identifier": identifier, "ports": ports}
        yield EthPacket(protocol=UDP, payload=payload, **one).frame()
    for source, ports in product((b"\x0a\0\0\x01", b"\x0a\0\0\x02"), (b"\0\1\0\2", b"\0\1\0\3")):
        inner = EthPacket(source=source, ports=ports).frame()[14:]
        header = bytearray(EthPacket().frame()[:34] + GRE + inner)
        header[23] = 47
        header[16:18] = (len(header) - 14).to_bytes(2, "big")
        yield bytes(header)


FRAMES = [parse(frame, whole=False) for frame in frames()]


def made(kind, at=0, size=None, data=b""):
    return context_of(kind, MAC_START, at, len(data) if size is None else size, data, b"")


def matched(headers):
    """All that groups can match of a packet."""
    return base(headers), *[part(headers) for part in PARTS]


def matched_after(context, headers):
    """The same after the context has changed it, and what comes to light when another tag goes."""
    try:
        changed = parse(context.changes[0](headers), whole=False)
    except FrameError:
        return None
    removes = context.reformat_type is REMOVE
    return *matched(changed), third_tag(changed) if removes else b""


CONTEXTS = {
    **{f"insert {data.hex()} at {at}": (INSERT, at, None, data)
       for at in (0, 2, 12, 14, 16, 34, 64)
       for data in (TAG, TAG + STAG, b"\x08\0\x45\0", b"\x81\0")},
    **{f"remove {size} at {at}": (REMOVE, at, size, b"")
       for at in (0, 2, 10, 12, 14, 16, 34) for size in (1, 2, 4, 8, 12, 64)},
    **{f"end, {header.hex()}": (L3_TO_L2, 0, None, MACS + header)
       for header in (IPV4, IPV6, ARP, TAG + IPV4, STAG + TAG + IPV4, TAG + TAG + TAG[:2])},
}  # fmt: skip


@pytest.mark.parametrize("name", CONTEXTS)
def test_packets_with_the_same_part_are_alike_behind_the_change(name):
    kind, at, size, data = CONTEXTS[name]
    context = made(kind, at, size, data)
    found = defaultdict(set)
    for headers in FRAMES:
        parts = tuple(part(headers) for part in context.parts)
        if (after := matched_after(context, headers)) is not None:
            found[matched(headers), third_tag(headers), parts].add(after)
    assert found
    assert all(len(alike) == 1 for alike in found.values())


@pytest.mark.hostile
def test_contexts_share_their_parts():
    """However many a guest makes, a packet is looked at by a few of these."""
    ended = [
        made(L3_TO_L2, data=number.to_bytes(12, "big") + header + ethertype.to_bytes(2, "big"))
        for number, header, ethertype in product(
            range(4), (b"", TAG, STAG, TAG + STAG), (0x800, 0x86DD, 0x8915, *range(100, 120))
        )
    ]
    inserted = [
        made(INSERT, at, data=bytes([number]) * size)
        for at, size, number in product(range(0, 66, 2), (2, 4, 64), range(4))
    ]
    removed = [made(REMOVE, at, size) for at, size in product(range(0, 66, 2), range(65))]
    assert len({part for one in ended for part in one.parts}) <= 12
    assert len({part for one in (*inserted, *removed) for part in one.parts}) <= 4


def test_flows_in_a_tunnel_stay_apart():
    (part,) = made(L3_TO_L2, data=MACS + IPV4).parts
    assert len({part(headers) for headers in FRAMES[-4:]}) == 4
    assert len({part(headers) for headers in FRAMES[:-4]}) == 1


@pytest.mark.parametrize(
    "header", [b"", MACS, MACS + IPV4 + b"\0", MACS + TAG, MACS + TAG * 3 + IPV4, bytes(13)]
)
def test_what_is_no_ethernet_header(header):
    with pytest.raises(CmdError, match="not an Ethernet header"):
        made(L3_TO_L2, data=header)


def test_a_tunnel_of_frames_takes_any_frame():
    arp = parse(MACS + ARP + bytes(46))
    (wrap,) = made(ReformatType.L2_TO_L2_TUNNEL, data=TUNNEL).changes
    assert wrap(arp).endswith(arp.frame)
    (wrap,) = made(ReformatType.L2_TO_L3_TUNNEL, data=TUNNEL).changes
    with pytest.raises(FrameError, match="without an IP packet"):
        wrap(arp)


def test_the_end_of_no_tunnel():
    for change in (*DECAP.changes, *made(L3_TO_L2, data=MACS + IPV4).changes):
        with pytest.raises(FrameError, match="without a tunnel"):
            change(FRAMES[0])


def test_an_ethertype_is_left_behind_removed_bytes():
    short = parse(MACS + TAG + ARP)
    assert made(REMOVE, 12, 4).changes[0](short) == MACS + ARP
    with pytest.raises(FrameError, match="behind the end"):
        made(REMOVE, 12, 5).changes[0](short)


@pytest.mark.parametrize("kind", [INSERT, REMOVE])
def test_no_odd_offset(kind):
    with pytest.raises(CmdError, match="offset is odd"):
        made(kind, 13, data=TAG)
