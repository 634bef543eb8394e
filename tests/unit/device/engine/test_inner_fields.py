"""Fields of a packet in a tunnel."""

import pytest
from helpers.net.tunnels import ADDRESSES, KINDS, tunnelled

from emu.device.engine.eth.steering.fields import FIELDS
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
