"""RoCE frames: known vectors, round trips, and bytes that mean no good."""

import importlib.util
import zlib
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.eth.roce import framing, reading
from emu.device.port.eth.roce.framing import Framer, RoceHeaders
from emu.device.port.eth.roce.reading import BadFrameError, network_header, parse
from emu.device.port.packet import MAX_BYTES, OPS, Packet
from layouts.enums.roce import RoceVersion
from layouts.wire.bth import PacketKind, Service
from layouts.wire.packet_ops import PACKET_OPS, WITH_PAYLOAD

V1, V2 = RoceVersion
DMAC, SMAC = bytes.fromhex("020000000002"), bytes.fromhex("020000000001")
V4 = framing.MAPPED_PREFIX + bytes((10, 0, 0, 1)), framing.MAPPED_PREFIX + bytes((10, 0, 0, 2))
V6 = bytes.fromhex("fe80") + bytes(13) + b"\x01", bytes.fromhex("fe80") + bytes(13) + b"\x02"

# Computed by Linux's rxe_icrc.c and by scapy's RoCE layer: the IP packet and its invariant CRC.
IPV4_VECTOR = bytes.fromhex(
    "4502003800074000401126aa0a0000010a000002c12312b7002400000440ffff000001238000004d"
    "68656c6c6f20776f726c6421" "64e72e96"
)  # fmt: skip
IPV6_VECTOR = bytes.fromhex(
    "6021234500241103fe800000000000000000000000000001fe800000000000000000000000000002"
    "c12312b7002400000440ffff000001238000004d68656c6c6f20776f726c6421" "4c995e67"
)  # fmt: skip


def ethernet(ethertype, packet):
    return DMAC + SMAC + ethertype.to_bytes(2, "big") + packet


def v1_vector():
    """A frame of RoCE v1, put together from the specification's figures by other means than ours.

    Nobody has published one with its invariant CRC; the rule is that of the vectors above.
    """
    bth_and_data = bytes.fromhex("0440ffff000001238000004d") + b"hello world!"
    gids = b"".join(V6)
    grh = bytes.fromhex("60212345001c1b03") + gids
    masked = b"\xff" * 8 + bytes.fromhex("6fffffff001c1bff") + gids
    crc = zlib.crc32(masked + bth_and_data[:4] + b"\xff" + bth_and_data[5:])
    return ethernet(0x8915, grh + bth_and_data + crc.to_bytes(4, "little"))


VECTORS = {
    "IPv4": ethernet(0x0800, IPV4_VECTOR),
    "IPv6": ethernet(0x86DD, IPV6_VECTOR),
    "GRH": v1_vector(),
}
NETWORK_BYTES = {"IPv4": 28, "IPv6": 48, "GRH": 40}
"""IP and UDP header, or global route header."""


def fix_checksum(frame):
    """The frame with the IPv4 checksum that its header should have."""
    words = sum(int.from_bytes(frame[at : at + 2], "big") for at in range(14, 34, 2) if at != 24)
    return frame[:24] + (-words % 0xFFFF).to_bytes(2, "big") + frame[26:]


@pytest.mark.parametrize("name", VECTORS)
def test_the_known_vectors_are_understood(name):
    frame = VECTORS[name]
    at = network_header(frame)
    packet = parse(frame, at)
    assert bytes(packet.payload) == b"hello world!"
    assert (packet.qpn, packet.psn, packet.pkey, packet.ack_request) == (0x123, 0x4D, 0xFFFF, True)
    assert str(packet.op) == "RC SEND ONLY"
    assert packet.grh.tclass == 2
    assert reading.tag_of(frame, at) is None
    assert reading.version_of(frame, at) == (V1 if name == "GRH" else V2)


def test_the_known_vectors_are_built():
    packet = Packet().of(OPS[Service.RC, PacketKind.SEND, True, True, None], 0x123, 0x4D)
    packet.ack_request = True
    v4 = RoceHeaders(DMAC, SMAC, *V4, tclass=2, hop_limit=64, sport=0xC123)
    v6 = RoceHeaders(DMAC, SMAC, *V6, tclass=2, flow_label=0x12345, hop_limit=3, sport=0xC123)
    built = Framer(v6, 0xFFFF).frame(packet, [b"hello world!"], 12)
    assert built == VECTORS["IPv6"]
    v1 = replace(v6, version=V1)
    assert Framer(v1, 0xFFFF).frame(packet, [b"hello world!"], 12) == VECTORS["GRH"]
    # The vector's packet has an identifier; ours, which must not be fragmented, need none.
    built = Framer(v4, 0xFFFF).frame(packet, [b"hello world!"], 12)
    without = fix_checksum(VECTORS["IPv4"][:18] + bytes(2) + VECTORS["IPv4"][20:])
    assert built[:-4] == without[:-4]
    assert bytes(parse(built, 14).payload) == b"hello world!"


HEADERS = st.builds(
    lambda gids, tci, tclass, flow, hops, sport, version: RoceHeaders(
        DMAC,
        SMAC,
        gids[0],
        gids[1],
        tci,
        tclass,
        0 if gids is V4 and version else flow,
        hops,
        sport,
        version,
    ),
    st.sampled_from((V4, V6)),
    st.none() | st.integers(0, 0xFFFF),
    st.integers(0, 255),
    st.integers(0, 0xFFFFF),
    st.integers(0, 255),
    st.integers(0, 0xFFFF),
    st.sampled_from(RoceVersion),
)


@given(
    HEADERS,
    st.sampled_from(sorted(PACKET_OPS)),
    st.binary(max_size=300),
    st.integers(0, 0xFFFFFF),
    st.integers(0, 0xFFFF),
)
def test_what_is_built_is_parsed(headers, code, data, number, pkey):
    op = PACKET_OPS[code]
    data = data if op.kind in WITH_PAYLOAD else b""
    packet = Packet().of(op, number, number ^ 0x5A5A5A)
    packet.va, packet.rkey, packet.length = number << 20, number, len(data)
    packet.swap_add = packet.compare = packet.original = number << 30
    packet.swap_add_mask = packet.compare_mask = number << 20
    packet.syndrome, packet.msn, packet.qkey, packet.src_qpn = 0x1F, number, number, number
    packet.immediate = packet.inv_rkey = number
    frame = Framer(headers, pkey).frame(packet, [data], len(data))
    at = network_header(frame)
    assert reading.transport_header(frame, at) == headers.size
    assert reading.version_of(frame, at) == headers.version
    assert reading.addresses(frame, at) == (headers.sgid, headers.dgid)
    parsed = parse(frame, at)
    assert (parsed.op, parsed.qpn, parsed.psn) == (op, packet.qpn, packet.psn)
    assert parsed.pkey == pkey
    assert bytes(parsed.payload) == data
    found = parsed.grh
    assert found.is_ip == (headers.version == V2)
    assert (found.sgid, found.dgid) == (headers.sgid, headers.dgid)
    assert (found.tclass, found.flow_label) == (headers.tclass, headers.flow_label)
    assert found.hop_limit == headers.hop_limit
    assert reading.tag_of(frame, at) == headers.tci
    assert parse(frame + bytes(7), at).payload == parsed.payload, "padding is no payload"


def test_a_framer_serves_packets_of_any_number_of_sizes():
    framer = Framer(RoceHeaders(DMAC, SMAC, *V4), 0xFFFF)
    packet = Packet().of(OPS[Service.RC, PacketKind.SEND, True, True, None], 5, 6)
    for size in [*range(300), *range(300)]:
        assert len(parse(framer.frame(packet, [bytes(size)], size), 14).payload) == size


@pytest.mark.parametrize("name", VECTORS)
def test_the_crc_covers_every_bit_that_routers_leave_alone(name):
    frame = VECTORS[name]
    at = network_header(frame)
    l4 = at + NETWORK_BYTES[name]
    masked = {at + place for place in ((1, 8, 10, 11) if name == "IPv4" else (0, 1, 2, 3, 7))}
    masked |= {l4 + 4} if name == "GRH" else {l4 - 2, l4 - 1, l4 + 4}
    for place in range(at, len(frame)):
        changed = frame[:place] + bytes((frame[place] ^ 0x01,)) + frame[place + 1 :]
        if name == "IPv4" and place < l4 - 8:
            changed = fix_checksum(changed)
        if network_header(changed) != at:
            continue  # no longer RoCE at all
        if place in masked:
            parse(changed, at)
        else:
            with pytest.raises(BadFrameError):
                parse(changed, at)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda f: f[:-1], "bad length"),
        (lambda f: fix_checksum(f[:16] + b"\xff\xff" + f[18:]), "bad length"),
        (lambda f: fix_checksum(f[:16] + b"\x00\x00" + f[18:]), "bad length"),
        (lambda f: f[:38] + b"\x00\x08" + f[40:], "bad length"),
        (lambda f: f[:24] + b"\x00\x00" + f[26:], "bad IPv4 checksum"),
        (lambda f: f[:-4] + f[-4:][::-1], "bad ICRC"),
    ],
)
def test_a_bad_frame_is_refused_with_its_kind(change, kind):
    frame = change(VECTORS["IPv4"])
    with pytest.raises(BadFrameError) as caught:
        parse(frame, network_header(frame))
    assert caught.value.kind == kind


def test_a_bad_transport_header_under_a_right_crc_is_refused():
    frame = VECTORS["IPv4"]
    body = b"\xff" + frame[43:-4]  # an opcode that nobody knows
    masked = bytes.fromhex("45ff003800074000ff11ffff0a0000010a000002c12312b70024ffff")
    crc = zlib.crc32(b"\xff" * 8 + masked + body[:4] + b"\xff" + body[5:])
    with pytest.raises(BadFrameError) as caught:
        parse(frame[:42] + body + crc.to_bytes(4, "little"), 14)
    assert caught.value.kind == "bad transport header"


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (12, "0806"),  # not IP
        (14, "46"),  # options
        (20, "2001"),  # a fragment
        (23, "06"),  # TCP
        (36, "12b8"),  # another port
    ],
)
def test_other_frames_are_not_roce(at, new):
    frame, new = VECTORS["IPv4"], bytes.fromhex(new)
    assert network_header(frame[:at] + new + frame[at + len(new) :]) == 0


@pytest.mark.parametrize(
    ("at", "new"),
    [
        (12, "8914"),  # FCoE's
        (14, "40"),  # another version of the header
        (20, "11"),  # UDP
    ],
)
def test_other_frames_are_not_roce_v1(at, new):
    frame, new = VECTORS["GRH"], bytes.fromhex(new)
    assert network_header(frame[:at] + new + frame[at + len(new) :]) == 0
    assert network_header(frame[:53]) == 0


@pytest.mark.hostile
@given(st.binary(max_size=100) | st.sampled_from([*VECTORS.values()]), st.data())
def test_no_bytes_raise_anything_else(frame, data):
    for _ in range(data.draw(st.integers(0, 4))):
        if frame:
            place = data.draw(st.integers(0, len(frame) - 1))
            frame = (
                frame[:place] + data.draw(st.binary(min_size=1, max_size=1)) + frame[place + 1 :]
            )
    frame = frame[: data.draw(st.integers(0, len(frame)))]
    at = network_header(frame)
    if at:
        reading.addresses(frame, at)
        with suppress(BadFrameError):
            parse(frame, at)


@pytest.mark.skipif(importlib.util.find_spec("scapy") is None, reason="scapy is not installed")
@pytest.mark.parametrize("gids", [V4, V6], ids=["IPv4", "IPv6"])
def test_scapy_agrees(gids):
    from scapy.contrib.roce import BTH
    from scapy.layers.l2 import Ether

    packet = Packet().of(OPS[Service.UD, PacketKind.SEND, True, True, None], 0x123, 0x4D)
    packet.qkey, packet.src_qpn = 0x8001_0000, 1
    frame = Framer(RoceHeaders(DMAC, SMAC, *gids, tclass=2), 0xFFFF).frame(packet, [b"abcdef"], 6)
    theirs = Ether(frame)
    assert BTH in theirs
    theirs[BTH].icrc = None
    assert bytes(theirs) == frame


@pytest.mark.hostile
@pytest.mark.parametrize("name", VECTORS)
def test_every_frame_that_is_cut_short_has_a_bad_length(name):
    frame = VECTORS[name]
    for size in range(14 + NETWORK_BYTES[name] - (0 if name == "GRH" else 4), len(frame)):
        with pytest.raises(BadFrameError) as caught:
            parse(frame[:size], network_header(frame[:size]))
        assert caught.value.kind == "bad length"


def with_udp_length(frame, size):
    """The IPv6 vector with another UDP length, which the IP header agrees with."""
    raw = size.to_bytes(2, "big")
    return frame[:18] + raw + frame[20:58] + raw + frame[60:]


@pytest.mark.hostile
@pytest.mark.parametrize("size", [7, 8 + 15, 8 + MAX_BYTES + 1])
def test_a_packet_of_no_possible_length(size):
    frame = with_udp_length(VECTORS["IPv6"], size) + bytes(MAX_BYTES)
    with pytest.raises(BadFrameError) as caught:
        parse(frame, network_header(frame))
    assert caught.value.kind == "bad length"


@pytest.mark.hostile
@pytest.mark.parametrize("at", [18, 58])
def test_lengths_of_ipv6_and_udp_agree(at):
    frame = VECTORS["IPv6"]
    shorter = (int.from_bytes(frame[at : at + 2], "big") - 4).to_bytes(2, "big")
    with pytest.raises(BadFrameError) as caught:
        parse(frame[:at] + shorter + frame[at + 2 :], network_header(frame))
    assert caught.value.kind == "bad length"
