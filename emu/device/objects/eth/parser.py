"""What a device looks for in packets besides the headers that all have: its driver says it."""

from __future__ import annotations

from typing import Final, NamedTuple

from layouts.eth_enums import VXLAN_PORTS


class Parser(NamedTuple):
    """What the device that steers a frame looks for behind UDP's header."""

    vxlan_ports: frozenset[int] = VXLAN_PORTS
    """UDP ports behind which VXLAN is."""
    geneve_option: bytes | None = None
    """The four bytes in front of the data of Geneve's option that it knows: class, type, length."""
    mpls_port: int = 0
    """The UDP port behind which MPLS is; 0: it is looked for nowhere."""


PARSER: Final = Parser()
"""As long as its driver has told it of nothing else."""
