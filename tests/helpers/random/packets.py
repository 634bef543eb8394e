"""Packets of all shapes."""

from __future__ import annotations

from hypothesis import strategies as st

from emu.driver.ethernet.frames import TCP, UDP, EthPacket


@st.composite
def packets(draw, protocols=(TCP, UDP)):
    """Well-formed packets of all shapes that have a transport header."""
    protocol = draw(st.sampled_from(protocols))
    tag = st.tuples(st.sampled_from((0x8100, 0x88A8)), st.integers(0, 0xFFFF))
    version = draw(st.sampled_from((4, 6)))
    size = 4 if version == 4 else 16
    packet = EthPacket(
        tags=tuple(draw(st.lists(tag, max_size=2))),
        version=version,
        source=draw(st.binary(min_size=size, max_size=size)),
        destination=draw(st.binary(min_size=size, max_size=size)),
        protocol=protocol,
        chain=protocol,
        tos=draw(st.integers(0, 255)),
        identifier=draw(st.integers(0, 0xFFFF)),
        ports=draw(st.binary(min_size=4, max_size=4)),
        sequence=draw(st.integers(0, 0xFFFFFFFF)),
        flags=draw(st.integers(0, 0xFFF)),
        payload=draw(st.binary(max_size=300)),
        padding=draw(st.binary(max_size=3)),
    )
    if protocol == TCP:
        packet.options = bytes(4 * draw(st.integers(0, 10)))
    if version == 4:
        packet.extra = bytes(4 * draw(st.integers(0, 10)))
    else:
        _extend(packet, draw(st.lists(st.tuples(st.sampled_from((0, 43, 60)), st.integers(0, 3)),
                                      max_size=3)))  # fmt: skip
    return packet


def _extend(packet, chain):
    following = [kind for kind, _ in chain[1:]] + [packet.protocol]
    packet.extra = b"".join(
        bytes([after, length]) + bytes(6 + 8 * length)
        for (_, length), after in zip(chain, following)
    )
    packet.chain = chain[0][0] if chain else packet.protocol
