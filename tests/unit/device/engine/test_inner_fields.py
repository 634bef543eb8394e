"""Fields of a packet in a tunnel."""

from struct import pack

import pytest
from helpers.net.tunnels import ADDRESSES, GENEVE_PORT, KINDS, tunnelled

from emu.device.engine.eth.steering.fields import FIELDS
from emu.device.objects.eth.parser import Parser
from emu.device.port.eth.headers import parse
from emu.driver.ethernet.frames import TCP, UDP, EthPacket


def packet(version, protocol):
    return EthPacket(
        version=version, protocol=protocol, chain=protocol,
        **ADDRESSES[version], payload=bytes(range(100)),
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("protocol", [TCP, UDP])
def test_fields_are_those_of_the_packet_alone(kind, version, protocol):
    inner = packet(version, protocol)
    alone, inside = parse(inner.frame()), parse(tunnelled(kind, 4, inner)[0])
    for name in FIELDS:
        part, _, field = name.partition(".")
        if part == "inner_headers":
            outer = f"outer_headers.{field}"
            assert FIELDS[name].read(inside) == FIELDS[outer].read(alone), name
            assert FIELDS[name].read(alone) is None


OPTION = bytes.fromhex("01028001")
"""Class, type and length of the option that the device looks for."""


def geneve(payload, **parts):
    frame = EthPacket(ports=pack(">HH", 7, GENEVE_PORT), payload=payload, **parts).frame()
    headers = parse(frame)
    headers.parser = Parser(geneve_option=OPTION)
    return headers


def test_an_option_of_geneve():
    read = FIELDS["misc_parameters_3.geneve_tlv_option_0_data"].read
    header = pack(">BBHI", 2, 0, 0x6558, 77 << 8)
    assert read(geneve(header + OPTION + b"\0\0\0\x09", protocol=UDP)) == 9
    assert read(geneve(header[:1] + bytes(7), protocol=UDP)) is None
    assert read(geneve(b"", protocol=UDP)) is None


def test_tcp_to_the_port_of_geneve_has_no_option():
    """Behind 8 bytes of its header are some that look like it."""
    headers = geneve(bytes(60))
    frame, at = bytearray(headers.frame), headers.l4 + 8
    frame[at] = 3
    frame[at + 8 : at + 12] = OPTION
    headers.frame = bytes(frame)
    assert FIELDS["misc_parameters_3.geneve_tlv_option_0_data"].read(headers) is None
