"""The receive buffers of an Ethernet port: which priority fills which, and how large they are.

The driver sets them for ``dcb buffer``, and with flow control for each priority. They are kept as
it sets them: no frame waits in them, as the link partner waits instead
(``emu.device.port.eth.flow_control``), so none is ever full.

Source: PRM "PPTB", "PBMC", "SBCAM", "SBPR", "SBCM"; core/en/port_buffer.c.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from emu.device.port.eth.qos import PRIORITIES

NETWORK_BUFFERS: Final = 8
"""Buffers for frames from the cable."""
BUFFERS: Final = 10
"""With those for frames of the adapter itself, which have no room here."""
CELL_BYTES: Final = 144
"""The unit of all sizes."""
CELLS: Final = 7282
"""Of all buffers of the port: 1 MiB."""
_FIRST_CELLS: Final = 1820
"""The first buffer's at power-on; every priority fills it."""
POOLS: Final = 2
"""In each direction, shared by the buffers: one for those that lose frames, one for the others."""
DIRECTIONS: Final = 2
"""0 received frames, 1 sent ones."""
_LOSSY: Final = 0
_LOSSLESS: Final = 1
_INGRESS: Final = 0
_EGRESS: Final = 1


@dataclass(slots=True)
class Buffer:
    """A buffer (bufferx_reg); sizes in cells."""

    size: int = 0
    lossy: bool = True
    """Whether it loses frames when it is full, and sends no pause frames before."""
    xoff: int = 0
    xon: int = 0
    """How full it is when it asks the link partner to stop, and to go on."""


@dataclass(slots=True)
class Pool:
    """A shared pool (sbpr_reg): its size in cells, 0 with ``infinite``."""

    size: int = 0
    infinite: bool = False
    mode: int = 1
    """1: limits of its users are shares of it (dynamic)."""


@dataclass(slots=True)
class Share:
    """What a buffer gets of a pool (sbcm_reg)."""

    pool: int = _LOSSY
    least: int = 0
    most: int = 0
    infinite: bool = False
    """Whether it has no limit; ``most`` is 0 then."""


def _buffers() -> list[Buffer]:
    return [Buffer(_FIRST_CELLS), *(Buffer() for _ in range(BUFFERS - 1))]


def _pools() -> dict[tuple[int, int], Pool]:
    """By direction and number: what is left of the port's cells, three to one."""
    rest = CELLS - _FIRST_CELLS
    pools = {(way, number): Pool() for way in range(DIRECTIONS) for number in range(POOLS)}
    pools[_INGRESS, _LOSSLESS].size = rest // 4
    pools[_EGRESS, _LOSSY].size = rest - rest // 4
    return pools


@dataclass(slots=True)
class PortBuffers:
    """What the driver has chosen, from power-on."""

    of_priority: bytearray = field(default_factory=lambda: bytearray(PRIORITIES))
    """The network buffer of each priority."""
    buffers: list[Buffer] = field(default_factory=_buffers)
    pools: dict[tuple[int, int], Pool] = field(default_factory=_pools)
    """By direction and number."""
    shares: dict[tuple[int, int], Share] = field(default_factory=dict)
    """By direction and buffer; what is not there is as at power-on."""
