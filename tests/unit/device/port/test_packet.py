"""Packets: the opcode table, bytes both ways, and bytes that are no packet."""

import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.ib.framing import MAX_BYTES, IbRoute, parse
from emu.device.port.packet import MAX_PAYLOAD, OPS, BadPacketError, GlobalHeader, Packet
from layouts.wire import bth
from layouts.wire.bth import PacketKind, Service
from layouts.wire.packet_ops import PACKET_OPS, RESPONSES, WITH_PAYLOAD, Position

LOCAL = IbRoute(0x12, 0x34, 5, 0x8001, None)
GLOBAL = IbRoute(
    0x12, 0x34, 5, 0x8001, GlobalHeader(bytes(range(16)), bytes(range(16, 32)), 9, 0x12345, 64)
)

EXTENSIONS = {
    "xrceth": ["srqn"],
    "reth": ["va", "rkey", "length"],
    "atomic_eth": ["va", "rkey", "swap_add", "compare"],
    "masked_atomic_eth": [
        "va", "rkey", "swap_add", "compare", "length", "swap_add_mask", "compare_mask",
    ],
    "aeth": ["syndrome", "msn"],
    "atomic_ack_eth": ["original"],
    "imm_dt": ["immediate"],
    "ieth": ["inv_rkey"],
    "cnp": (),
    "deth": ["qkey", "src_qpn"],
}  # fmt: skip
WIDTHS = {"va": 64, "original": 64, "syndrome": 8}
WIDTHS |= dict.fromkeys(("swap_add", "compare", "swap_add_mask", "compare_mask"), 64)
WIDTHS |= dict.fromkeys(("srqn", "msn", "src_qpn"), 24)


def example(op, rng):
    """A packet of the opcode with every field that it has."""
    packet = Packet().of(op, rng.getrandbits(24), rng.getrandbits(24))
    packet.ack_request, packet.solicited = bool(rng.getrandbits(1)), bool(rng.getrandbits(1))
    for header in op.headers:
        for name in EXTENSIONS[header.__name__]:
            setattr(packet, name, rng.getrandbits(WIDTHS.get(name, 32)))
    return packet


def fields(packet):
    names = [name for header in packet.op.headers for name in EXTENSIONS[header.__name__]]
    names += ["op", "qpn", "psn", "ack_request", "solicited", "immediate", "inv_rkey"]
    return {name: getattr(packet, name) for name in names}


@pytest.mark.parametrize(
    ("code", "service", "kind", "position", "headers"),
    [
        (0x00, Service.RC, PacketKind.SEND, Position.FIRST, []),
        (0x05, Service.RC, PacketKind.SEND, Position.ONLY, ["imm_dt"]),
        (0x0B, Service.RC, PacketKind.WRITE, Position.ONLY, ["reth", "imm_dt"]),
        (0x0C, Service.RC, PacketKind.READ, Position.ONLY, ["reth"]),
        (0x0E, Service.RC, PacketKind.READ_RESPONSE, Position.MIDDLE, []),
        (0x11, Service.RC, PacketKind.ACKNOWLEDGE, Position.ONLY, ["aeth"]),
        (
            0x12,
            Service.RC,
            PacketKind.ATOMIC_ACKNOWLEDGE,
            Position.ONLY,
            ["aeth", "atomic_ack_eth"],
        ),
        (0x14, Service.RC, PacketKind.FETCH_ADD, Position.ONLY, ["atomic_eth"]),
        (0x16, Service.RC, PacketKind.SEND, Position.LAST, ["ieth"]),
        (0x29, Service.UC, PacketKind.WRITE, Position.LAST, ["imm_dt"]),
        (0x65, Service.UD, PacketKind.SEND, Position.ONLY, ["deth", "imm_dt"]),
        (0xA1, Service.XRC, PacketKind.SEND, Position.MIDDLE, ["xrceth"]),
        (0xAB, Service.XRC, PacketKind.WRITE, Position.ONLY, ["xrceth", "reth", "imm_dt"]),
        (0xB1, Service.XRC, PacketKind.ACKNOWLEDGE, Position.ONLY, ["aeth"]),
        # Ours, among those of manufacturers:
        (0xD3, Service.RC, PacketKind.MASKED_COMPARE_SWAP, Position.ONLY, ["masked_atomic_eth"]),
        (
            0xF4,
            Service.XRC,
            PacketKind.MASKED_FETCH_ADD,
            Position.ONLY,
            ["xrceth", "masked_atomic_eth"],
        ),
    ],
)
def test_opcodes_of_the_specification(code, service, kind, position, headers):
    op = PACKET_OPS[code]
    assert (op.service, op.kind, op.position) == (service, kind, position)
    assert [header.__name__ for header in op.headers] == headers


def test_table_as_a_whole():
    assert len(PACKET_OPS) == 23 + 12 + 23 + 2 + 1 + 2 * 2
    assert len(OPS) == len(PACKET_OPS)
    assert all(op.code == code for code, op in PACKET_OPS.items())
    standard = [op for op in PACKET_OPS.values() if op.code < 0xC0]
    assert all(op.code >> 5 == op.service for op in standard)
    assert len(PACKET_OPS) - len(standard) == 4


@pytest.mark.parametrize("code", [0x15, 0x18, 0x2C, 0x30, 0x40, 0x60, 0x80, 0xB5, 0xD5, 0xFF])
def test_opcode_that_nobody_here_speaks(code):
    frame = bytearray(LOCAL.frame(example(PACKET_OPS[0x04], Random(1))))
    frame[bth.lrh.size] = code
    with pytest.raises(BadPacketError, match="unknown"):
        parse(memoryview(frame))


@pytest.mark.parametrize("route", [LOCAL, GLOBAL], ids=["local", "global"])
@pytest.mark.parametrize("op", PACKET_OPS.values(), ids=str)
def test_every_opcode_there_and_back(op, route):
    rng = Random(op.code)
    for length in (0, 1, 2, 3, 4, 4095, MAX_PAYLOAD) if op.kind in WITH_PAYLOAD else (0,):
        packet, payload = example(op, rng), rng.randbytes(length)
        frame = route.frame(packet, [memoryview(payload)], length)
        assert len(frame) % 4 == 0
        assert len(frame) <= MAX_BYTES
        found = parse(memoryview(frame))
        assert fields(found) == fields(packet)
        assert bytes(found.payload) == payload
        assert (found.dlid, found.slid, found.sl, found.pkey) == (0x12, 0x34, 5, 0x8001)
        assert found.grh == route.grh


def test_payload_of_several_pieces():
    parts = [memoryview(b"abc"), memoryview(b""), memoryview(b"defgh")]
    frame = LOCAL.frame(example(PACKET_OPS[0x04], Random(1)), parts, 8)
    assert bytes(parse(memoryview(frame)).payload) == b"abcdefgh"


def test_bytes_of_a_packet():
    """Field by field as the specification's figures have them."""
    packet = Packet().of(PACKET_OPS[0x0A], 0x40, 0x123456)
    packet.va, packet.rkey, packet.length = 0x1122334455667788, 0x99AABBCC, 3
    packet.ack_request = packet.solicited = True
    frame = LOCAL.frame(packet, [memoryview(b"xyz")], 3)
    assert frame.hex(" ", 4) == (
        "00520012 000b0034 "  # VL 0, version 0; SL 5, BTH next; DLID; 11 words; SLID
        "0ad08001 00000040 80123456 "  # opcode; SE, migrated, 1 pad; P_Key; QP; ACK request, PSN
        "11223344 55667788 99aabbcc 00000003 "  # RETH
        "78797a00 00000000"  # payload, pad, invariant CRC
    )


def changed(frame, at, value):
    data = bytearray(frame)
    data[at] = value
    return memoryview(data)


def test_headers_that_contradict_the_length():
    frame = GLOBAL.frame(example(PACKET_OPS[0x04], Random(1)), [memoryview(bytes(64))], 64)
    for wrong in (
        frame[:-4],
        frame + bytes(4),
        frame[: bth.lrh.size + bth.bth.size],
        changed(frame, 5, frame[5] + 1),  # words
        changed(frame, 13, frame[13] + 4),  # global header
        changed(frame, 8, 0x40),  # its version
        changed(frame, 14, 0x11),  # UDP next
        changed(frame, 1, frame[1] & ~3),  # raw
        changed(frame, 0, 1),  # link version
        b"",
        bytes(MAX_BYTES + 4),
    ):
        with pytest.raises(BadPacketError):
            parse(memoryview(bytes(wrong)))


@pytest.mark.parametrize("lnh", [0, 1], ids=["raw", "IPv6"])
def test_packet_of_another_transport(lnh):
    frame = LOCAL.frame(example(PACKET_OPS[0x04], Random(1)))
    with pytest.raises(BadPacketError, match="transport"):
        parse(changed(frame, 1, frame[1] & ~3 | lnh))


def test_payload_longer_than_any_mtu():
    """It would fit into a packet that has a global header."""
    payload = bytes(MAX_PAYLOAD + 4)
    frame = LOCAL.frame(example(PACKET_OPS[0x04], Random(1)), [memoryview(payload)], len(payload))
    assert len(frame) <= MAX_BYTES
    with pytest.raises(BadPacketError, match=f"{MAX_PAYLOAD + 4} bytes of payload"):
        parse(memoryview(frame))


def test_global_header_that_does_not_fit():
    frame = bytearray(LOCAL.frame(example(PACKET_OPS[0x04], Random(1))))
    frame[1] |= bth.LNH_GLOBAL
    with pytest.raises(BadPacketError, match="too short"):
        parse(memoryview(frame))


def test_extension_header_that_is_cut_off():
    frame = bytearray(LOCAL.frame(example(PACKET_OPS[0x04], Random(1)), [memoryview(b"1234")], 4))
    frame[bth.lrh.size] = 0x0A
    with pytest.raises(BadPacketError, match="-12 bytes"):
        parse(memoryview(frame))


@pytest.mark.parametrize("op", [op for op in PACKET_OPS.values() if op.kind not in WITH_PAYLOAD])
def test_payload_where_there_must_be_none(op):
    frame = LOCAL.frame(example(op, Random(1)), [memoryview(b"1234")], 4)
    with pytest.raises(BadPacketError, match="4 bytes"):
        parse(memoryview(frame))


def test_responses_never_name_a_shared_queue():
    assert not any(
        header is bth.xrceth
        for op in PACKET_OPS.values()
        if op.kind in RESPONSES
        for header in op.headers
    )


@pytest.mark.hostile
@given(st.binary(max_size=200))
def test_noise_is_a_packet_or_an_error(data):
    with contextlib.suppress(BadPacketError):
        parse(memoryview(data))


@pytest.mark.hostile
@given(st.sampled_from(sorted(PACKET_OPS)), st.data())
def test_damaged_packet_is_a_packet_or_an_error(code, data):
    op = PACKET_OPS[code]
    length = data.draw(st.integers(0, 64)) if op.kind in WITH_PAYLOAD else 0
    route = data.draw(st.sampled_from([LOCAL, GLOBAL]))
    frame = bytearray(route.frame(example(op, Random(1)), [memoryview(bytes(length))], length))
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        packet = parse(memoryview(frame))
    except BadPacketError:
        return
    assert len(packet.payload) <= MAX_PAYLOAD
    fields(packet)
