"""Optional headers that a device parses, as configured by its driver."""

from __future__ import annotations

from typing import Final, NamedTuple

from layouts.enums.packet_reformat import VXLAN_PORTS


class Parser(NamedTuple):
    """Headers behind UDP that the device parses when it steers a frame."""

    vxlan_ports: frozenset[int] = VXLAN_PORTS
    """UDP ports of VXLAN."""
    geneve_option: bytes | None = None
    """The four bytes in front of the known Geneve option's data: class, type, length."""
    mpls_port: int = 0
    """UDP port of MPLS; 0: MPLS is not parsed."""


PARSER: Final = Parser()
"""The defaults, until the driver configures others."""
