"""The receive buffers of an Ethernet port: their sizes, and the priorities of each.

The driver sets them for ``dcb buffer``, and with flow control by priority. The device only stores
the settings. No frame waits in a buffer, as the link partner waits instead
(``emu.device.port.eth.flow_control``); a buffer is therefore never full.

Source: PRM "PPTB", "PBMC", "SBCAM", "SBPR", "SBCM"; core/en/port_buffer.c.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from emu.device.port.eth.qos import PRIORITIES

NETWORK_BUFFERS: Final = 8
"""Number of buffers for frames from the cable."""
BUFFERS: Final = 10
"""Number of buffers, including those for the adapter's own frames, which have size 0 here."""
CELL_BYTES: Final = 144
"""Unit of all sizes, in bytes."""
CELLS: Final = 7282
"""Cells of all buffers of the port: 1 MiB."""
_FIRST_CELLS: Final = 1820
"""Cells of the first buffer at power-on, which all priorities use."""
POOLS: Final = 2
"""Number of pools in each direction: one for lossy buffers, one for lossless ones."""
DIRECTIONS: Final = 2
"""Number of directions: 0 is receive, 1 is send."""
_LOSSY: Final = 0
_LOSSLESS: Final = 1
_INGRESS: Final = 0
_EGRESS: Final = 1


@dataclass(slots=True)
class PortBuffer:
    """A buffer (bufferx_reg); sizes in cells."""

    size: int = 0
    lossy: bool = True
    """Whether the buffer drops frames when full, instead of sending pause frames."""
    xoff: int = 0
    xon: int = 0
    """Fill levels at which the link partner is asked to stop, and to continue."""


@dataclass(slots=True)
class Pool:
    """A shared pool (sbpr_reg): its size in cells, 0 with ``infinite``."""

    size: int = 0
    infinite: bool = False
    mode: int = 1
    """1: the limits of its users are fractions of the pool (dynamic)."""


@dataclass(slots=True)
class BufferQuota:
    """The limits of a buffer in a pool (sbcm_reg)."""

    pool: int = _LOSSY
    least: int = 0
    most: int = 0
    infinite: bool = False
    """Whether there is no limit; ``most`` is then 0."""


def _buffers() -> list[PortBuffer]:
    return [PortBuffer(_FIRST_CELLS), *(PortBuffer() for _ in range(BUFFERS - 1))]


def _pools() -> dict[tuple[int, int], Pool]:
    """Return the pools by direction and number at power-on.

    The lossless receive pool has a quarter of the cells that the first buffer leaves, the lossy
    send pool the rest. The other two pools have size 0.
    """
    rest = CELLS - _FIRST_CELLS
    pools = {
        (direction, number): Pool() for direction in range(DIRECTIONS) for number in range(POOLS)
    }
    pools[_INGRESS, _LOSSLESS].size = rest // 4
    pools[_EGRESS, _LOSSY].size = rest - rest // 4
    return pools


@dataclass(slots=True)
class PortBuffers:
    """The driver's settings, defaults at power-on."""

    of_priority: bytearray = field(default_factory=lambda: bytearray(PRIORITIES))
    """The network buffer of each priority."""
    buffers: list[PortBuffer] = field(default_factory=_buffers)
    pools: dict[tuple[int, int], Pool] = field(default_factory=_pools)
    """Pools by direction and number."""
    shares: dict[tuple[int, int], BufferQuota] = field(default_factory=dict)
    """Limits by direction and buffer; missing ones have the power-on values."""
