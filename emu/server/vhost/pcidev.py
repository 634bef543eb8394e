"""PCI accesses in the buffers of two virtqueues (arch/um/drivers/virt-pci.c of Linux 6.12).

Queue 0 has the guest's accesses, queue 1 its empty buffers for interrupts. A refused access is
answered without data: the driver has already filled the buffer with ones.
"""

from __future__ import annotations

import logging
from typing import Final

from emu.device.ports import PciFunction
from emu.device.rounds.sizes import REQUEST_BYTES_PER_POLL
from emu.server.vfio.protocol import CONFIG_SPACE_SIZE
from emu.server.vfio.server import SLOW_BYTES
from emu.server.vhost.msix import MsixTable
from emu.server.vhost.protocol import MAX_ACCESS, PCIDEV_MESSAGE, PcidevOp
from emu.server.vhost.virtqueue import Chain, Virtqueue

logger = logging.getLogger(__name__)

COMMANDS: Final = 0
INTERRUPTS: Final = 1
NUM_QUEUES: Final = 2

_HEADER: Final = PCIDEV_MESSAGE.size
_MMIO_READ: Final = int(PcidevOp.MMIO_READ)
_MMIO_WRITE: Final = int(PcidevOp.MMIO_WRITE)
_CFG_READ: Final = int(PcidevOp.CFG_READ)
_CFG_WRITE: Final = int(PcidevOp.CFG_WRITE)
_CONFIG_SIZES: Final = (1, 2, 4, 8)


class PciDevice:
    """A function that is accessed by messages."""

    def __init__(self, name: str, function: PciFunction, vectors: MsixTable) -> None:
        self._name = name
        self._function = function
        self._vectors = vectors
        self._sizes = function.bar_sizes

    def command(self, queue: Virtqueue, chain: Chain) -> int:
        """Execute a PCI access and return its buffer to the driver; return the cost in bytes.

        An access to configuration space that uses up the round, as by a reset, costs a whole poll.

        A refused access is logged and answered without data; writes nothing. Raises
        VhostProtocolError for a buffer outside the memory.
        """
        out = chain.out
        if len(out) < _HEADER:
            self._refuse(f"an access of {len(out)} bytes, the header has {_HEADER}")
            queue.give(chain)
            return SLOW_BYTES
        op, bar, _, size, address = PCIDEV_MESSAGE.unpack_from(out)
        if op == _MMIO_WRITE:
            data = out[_HEADER : _HEADER + size]
            if len(data) == size and self._is_inside(bar, address, size):
                self._function.bar_write(bar, address, data)
                self._vectors.written(bar, address, data)
                queue.give(chain)
                return len(data)
        elif op == _MMIO_READ:
            if size <= chain.capacity and self._is_inside(bar, address, size):
                queue.give(chain, self._function.bar_read(bar, address, size))
                return int(size)
        else:
            queue.give(chain, self._configuration(op, size, address, chain))
            return REQUEST_BYTES_PER_POLL if self._function.is_round_used else SLOW_BYTES
        self._refuse(f"{PcidevOp(op).name}: {size:#x} bytes at {address:#x} of BAR {bar}")
        queue.give(chain)
        return SLOW_BYTES

    def _configuration(self, op: int, size: int, address: int, chain: Chain) -> bytes:
        """Read or write 1, 2, 4 or 8 bytes of configuration space; return the bytes read.

        Return b"" for a write, and for a refused access, which is logged: other sizes, outside the
        4096 bytes, or an unknown operation. A write may also change which MSI-X vectors are sent.
        """
        if size in _CONFIG_SIZES and address <= CONFIG_SPACE_SIZE - size:
            if op == _CFG_READ and size <= chain.capacity:
                return self._function.config_read(address, size)
            if op == _CFG_WRITE and len(chain.out) >= _HEADER + size:
                self._function.config_write(address, chain.out[_HEADER : _HEADER + size])
                self._vectors.control_written()
                return b""
        self._refuse(f"operation {op}: {size:#x} bytes at {address:#x}")
        return b""

    def _is_inside(self, bar: int, offset: int, size: int) -> bool:
        inside = bar < len(self._sizes) and offset + size <= self._sizes[bar]
        return inside and 0 < size <= MAX_ACCESS

    def _refuse(self, why: str) -> None:
        logger.warning("%s: refused: %s", self._name, why)
