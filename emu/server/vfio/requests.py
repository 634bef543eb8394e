"""The vfio-user commands: request payload and descriptors in, reply payload out.

Every check precedes the first change. The hot path for BAR accesses is in ``session``. Invalid
accesses leave the hot path, so every access is checked here in full.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final, Protocol

from emu.device.ports import PciFunction
from emu.server.vfio.interrupts import IrqTable
from emu.server.vfio.memory import DmaMap
from emu.server.vfio.protocol import (
    CONFIG_SPACE_SIZE,
    DEVICE_INFO,
    DMA_MAP,
    DMA_UNMAP,
    IRQ_INFO,
    IRQ_SET,
    MAX_DATA_XFER_SIZE,
    MAX_MSG_FDS,
    NUM_BARS,
    NUM_IRQS,
    NUM_REGIONS,
    REGION_ACCESS,
    REGION_INFO,
    DeviceFlag,
    DmaFlag,
    IrqInfoFlag,
    RegionFlag,
    RegionIndex,
    UnmapFlag,
    VfioCommand,
    VfioRequestError,
    command_name,
)

_Handler = Callable[[bytes, list[int]], bytes]


class ConfigObserver(Protocol):
    """Learns of a client's accesses to configuration space, and of resets."""

    def forget(self) -> None:
        """Note that another client has connected."""

    def config_read(self, offset: int, length: int) -> None:
        """Note a read, which follows."""

    def follow(self) -> None:
        """Note that a write or a reset has taken place."""


class Requests:
    """The commands after VERSION, for a function."""

    def __init__(self, function: PciFunction, memory: DmaMap, interrupts: IrqTable) -> None:
        self._function = function
        self._memory = memory
        self._interrupts = interrupts
        self.observer: ConfigObserver | None = None
        self.region_sizes: Final = region_sizes(function)
        self._handlers: Final[dict[int, _Handler]] = {
            VfioCommand.DMA_MAP: self._dma_map,
            VfioCommand.DMA_UNMAP: self._dma_unmap,
            VfioCommand.DEVICE_GET_INFO: self._device_get_info,
            VfioCommand.DEVICE_GET_REGION_INFO: self._device_get_region_info,
            VfioCommand.DEVICE_GET_IRQ_INFO: self._device_get_irq_info,
            VfioCommand.DEVICE_SET_IRQS: self._device_set_irqs,
            VfioCommand.REGION_READ: self._region_read,
            VfioCommand.REGION_WRITE: self._region_write,
            VfioCommand.DEVICE_RESET: self._device_reset,
        }

    def handle(self, cmd: int, payload: bytes, fds: list[int]) -> bytes:
        """Execute ``cmd`` and return the reply's payload.

        Remove descriptors that are kept from ``fds``. The caller closes the rest of ``fds``. Raises
        :class:`VfioRequestError`: ENOTSUP for an unsupported command, such as DEVICE_FEATURE;
        EINVAL for descriptors that the command does not carry, or too many; else the error of its
        handler.
        """
        handler = self._handlers.get(cmd)
        if handler is None:
            raise VfioRequestError(errno.ENOTSUP, "not supported")
        if fds and cmd not in (VfioCommand.DMA_MAP, VfioCommand.DEVICE_SET_IRQS):
            raise _invalid(f"{command_name(cmd)} carries no descriptors")
        if len(fds) > MAX_MSG_FDS:
            raise _invalid(f"{len(fds)} descriptors in a message")
        return handler(payload, fds)

    def _dma_map(self, payload: bytes, fds: list[int]) -> bytes:
        """Grant the range of a DMA_MAP to the function; return an empty payload.

        Raises :class:`VfioRequestError` with EINVAL for a wrong size, ``argsz`` or flags, MMAP
        without a descriptor, or several descriptors; otherwise as :meth:`DmaMap.map` does.
        """
        _expect(payload, DMA_MAP.size)
        argsz, flags, offset, iova, size = DMA_MAP.unpack(payload)
        _expect_argsz(argsz, DMA_MAP.size)
        access = flags & int(DmaFlag.READ | DmaFlag.WRITE)
        mmap = flags & int(DmaFlag.MMAP)
        if flags != access | mmap or len(fds) > 1 or (mmap and not fds):
            raise _invalid(f"flags {flags:#x} with {len(fds)} descriptors")
        self._memory.map(iova, size, offset, access, fds[0] if fds else None)
        return b""

    def _dma_unmap(self, payload: bytes, fds: list[int]) -> bytes:
        """Unmap the range of a DMA_UNMAP, or with UNMAP_FLAG_ALL every range.

        Return the request's payload. Raises :class:`VfioRequestError` with EINVAL for other flags
        (dirty bitmap), for ALL with a range, or for a range that would split a granted one.
        """
        _expect(payload, DMA_UNMAP.size)
        argsz, flags, iova, size = DMA_UNMAP.unpack(payload)
        _expect_argsz(argsz, DMA_UNMAP.size)
        if flags == UnmapFlag.ALL and not iova and not size:
            self._memory.clear()
        elif flags:
            raise _invalid(f"flags {flags:#x} for {iova:#x}+{size:#x}")
        else:
            self._memory.unmap(iova, size)
        return payload

    def _device_get_info(self, payload: bytes, fds: list[int]) -> bytes:
        """Return struct vfio_device_info: a PCI device with reset, 9 regions, 5 interrupt types."""
        _expect(payload, DEVICE_INFO.size)
        argsz, *_ = DEVICE_INFO.unpack(payload)
        _expect_argsz(argsz, DEVICE_INFO.size)
        flags = DeviceFlag.RESET | DeviceFlag.PCI
        return DEVICE_INFO.pack(DEVICE_INFO.size, flags, NUM_REGIONS, NUM_IRQS)

    def _device_get_region_info(self, payload: bytes, fds: list[int]) -> bytes:
        """Return struct vfio_region_info; size and flags are 0 for an absent region.

        No region is mappable, or QEMU would wait for every write. Raises :class:`VfioRequestError`
        with EINVAL for an unknown region or a small ``argsz``.
        """
        _expect(payload, REGION_INFO.size)
        argsz, _, index, *_ = REGION_INFO.unpack(payload)
        _expect_argsz(argsz, REGION_INFO.size)
        if index >= NUM_REGIONS:
            raise _invalid(f"region {index}")
        size = self.region_sizes[index]
        flags = RegionFlag.READ | RegionFlag.WRITE if size else 0
        return REGION_INFO.pack(REGION_INFO.size, flags, index, 0, size, 0)

    def _device_get_irq_info(self, payload: bytes, fds: list[int]) -> bytes:
        """Return struct vfio_irq_info: EVENTFD and the number of interrupts, 0 for INTx and MSI.

        NORESIZE is not set: with it, QEMU would disable all vectors to add one. Raises
        :class:`VfioRequestError` with EINVAL for an unknown type or a small ``argsz``.
        """
        _expect(payload, IRQ_INFO.size)
        argsz, _, index, _ = IRQ_INFO.unpack(payload)
        _expect_argsz(argsz, IRQ_INFO.size)
        if index >= NUM_IRQS:
            raise _invalid(f"interrupt type {index}")
        count = self._interrupts.counts(index)
        return IRQ_INFO.pack(IRQ_INFO.size, IrqInfoFlag.EVENTFD, index, count)

    def _device_set_irqs(self, payload: bytes, fds: list[int]) -> bytes:
        """Execute a DEVICE_SET_IRQS as :meth:`IrqTable.set`, which takes over ``fds``.

        Return no payload. Raises :class:`VfioRequestError` with EINVAL for an invalid request.
        """
        if len(payload) < IRQ_SET.size:
            raise _invalid(f"{len(payload)} bytes")
        argsz, flags, index, start, count = IRQ_SET.unpack_from(payload)
        _expect_argsz(argsz, IRQ_SET.size)
        self._interrupts.set(index, flags, start, count, payload[IRQ_SET.size :], fds)
        return b""

    def _region_read(self, payload: bytes, fds: list[int]) -> bytes:
        """Return the request's payload, then the bytes read from a BAR or configuration space.

        Raises :class:`VfioRequestError`: EINVAL for a range outside the region, EIO when the
        function returns another number of bytes.
        """
        _expect(payload, REGION_ACCESS.size)
        offset, region, count = REGION_ACCESS.unpack(payload)
        self._expect_inside(region, offset, count)
        if region == RegionIndex.CONFIG:
            if self.observer is not None:
                self.observer.config_read(offset, count)
            data = self._function.config_read(offset, count)
        else:
            data = self._function.bar_read(region, offset, count)
        if len(data) != count:
            raise VfioRequestError(errno.EIO, f"the function read {len(data)} bytes of {count}")
        return payload + data

    def _region_write(self, payload: bytes, fds: list[int]) -> bytes:
        """Write the payload's data to a BAR or configuration space.

        Return the request without the data. Raises :class:`VfioRequestError` with EINVAL when the
        size does not fit, or the range is outside.
        """
        if len(payload) < REGION_ACCESS.size:
            raise _invalid(f"{len(payload)} bytes")
        offset, region, count = REGION_ACCESS.unpack_from(payload)
        _expect(payload, REGION_ACCESS.size + count)
        self._expect_inside(region, offset, count)
        self._write(region, offset, payload[REGION_ACCESS.size :])
        return payload[: REGION_ACCESS.size]

    def _device_reset(self, payload: bytes, fds: list[int]) -> bytes:
        """Reset the function, and clear latched vectors.

        Keep eventfds and DMA mappings, as VFIO does. Raises :class:`VfioRequestError` with EINVAL
        for a payload.
        """
        _expect(payload, 0)
        self._interrupts.clear_pending()
        self._function.reset()
        if self.observer is not None:
            self.observer.follow()
        return b""

    def _write(self, region: int, offset: int, data: bytes) -> None:
        if region == RegionIndex.CONFIG:
            self._function.config_write(offset, data)
            if self.observer is not None:
                self.observer.follow()
        else:
            self._function.bar_write(region, offset, data)

    def _expect_inside(self, region: int, offset: int, count: int) -> None:
        """Refuse with EINVAL an access that is empty, over 1 MiB, or outside the region.

        Raises :class:`VfioRequestError`; QEMU then reads all-ones and continues.
        """
        size = self.region_sizes[region] if region < NUM_REGIONS else 0
        if not count or count > MAX_DATA_XFER_SIZE or offset + count > size:
            raise _invalid(f"region {region} has {size:#x} bytes, not {offset:#x}+{count:#x}")


def region_sizes(function: PciFunction) -> tuple[int, ...]:
    """Return the size of each region in bytes by index.

    0 for an absent one, such as ROM and VGA.
    """
    sizes = [*function.bar_sizes, *[0] * (NUM_REGIONS - NUM_BARS)]
    sizes[RegionIndex.CONFIG] = CONFIG_SPACE_SIZE
    return tuple(sizes)


def _expect(payload: bytes, size: int) -> None:
    if len(payload) != size:
        raise _invalid(f"{len(payload)} bytes, not {size}")


def _expect_argsz(argsz: int, size: int) -> None:
    if argsz < size:
        raise _invalid(f"argsz {argsz}, the minimum is {size}")


def _invalid(why: str) -> VfioRequestError:
    return VfioRequestError(errno.EINVAL, why)
