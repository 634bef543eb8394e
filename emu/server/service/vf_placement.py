"""Places the BARs of virtual functions (VFs) in QEMU, by DMA of their physical function (PF).

A VF's own BAR registers are read-only zeros on real hardware: software writes the VF BAR of the
PF's SR-IOV capability. QEMU however maps the BAR of a vfio-user device by the device's own
registers. The server therefore writes those itself, through the machine's memory-mapped
configuration space (ECAM), which a DMA of the PF reaches as an access of the processor does.

1. The PF needs the number of its bus. For every bus it requests a read of one byte of function 0's
   configuration space; the offset of the byte names the bus. One of these reads comes back to the
   PF. Without Bus Master Enable QEMU refuses all of them.
2. Writes to the VFs' configuration spaces set BAR 0 and Memory Space Enable. QEMU maps the BARs and
   passes the writes on, so the registers show whether they have arrived.

Both steps follow Bus Master Enable and VF Enable, the second also a write of the VF BAR. One batch
of requests is under way at a time, so a client that answers late or never gets no more than that.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final, Protocol

from emu.device.pci import ConfigSpace
from emu.device.ports import PciFunction
from emu.server.vfio.own_requests import Request
from emu.server.vfio.protocol import CONFIG_SPACE_SIZE, VfioCommand

logger = logging.getLogger(__name__)

NO_PLACE: Final = "the virtual functions have no place"
"""Text of the log's line about virtual functions that cannot be used; the reason follows."""

ECAM_BASES: Final = (0xB000_0000, 0xE000_0000)
"""Where firmware puts the ECAM of QEMU's q35: SeaBIOS, OVMF."""

_BUSES: Final = 256
_LOG_BUS: Final = 20
_LOG_FUNCTION: Final = 12
_ADDRESSES: Final = 1 << 64
_COMMAND, _BAR0, _BAR1 = 0x04, 0x10, 0x14
_MEMORY_SPACE: Final = 1 << 1
_TYPE_BITS: Final = 0xF
_RANGE = Struct("=QQ")
"""Address and count of DMA_READ and DMA_WRITE; data follow in the latter."""


class DmaClient(Protocol):
    """A client that executes requests of the function."""

    def send_requests(self, requests: Sequence[Request], on_end: Callable[[int], None]) -> None:
        """Send a batch; call ``on_end`` once all are done, with the number of refused ones."""


class VfPlacement:
    """The places of one PF's VFs in the machine of its client."""

    def __init__(
        self, name: str, client: DmaClient, config: ConfigSpace, vfs: Sequence[PciFunction]
    ) -> None:
        """``config`` is the PF's; ``vfs`` are its VFs, in the order of their numbers."""
        self._name = name
        self._client = client
        self._config = config
        self._vfs = vfs
        self.forget()

    def forget(self) -> None:
        """Forget the machine and the batch under way: another client has connected."""
        self._is_waiting = False
        self._bus: int | None = None
        """ECAM address of the PF's bus."""
        self._found: int | None = None
        self._search: list[int] = []
        """Numbers of the ECAM bases still to be tried, the present one first."""
        self._must_search = self._must_place = False
        self._was_mastering = self._was_enabled = False
        self._vf_bar = 0
        self._has_complained = False

    def config_read(self, offset: int, length: int) -> None:
        """Recognize the read that the PF has requested itself, by its offset."""
        number, bus = divmod(CONFIG_SPACE_SIZE - 1 - offset, _BUSES)
        if self._search and self._is_waiting and length == 1 and number < len(ECAM_BASES):
            self._found = ECAM_BASES[number] + (_BUSES - 1 - bus << _LOG_BUS)

    def follow(self) -> None:
        """Act on the PF's configuration space after a write of the client, or a reset."""
        config = self._config
        is_mastering, is_enabled = config.bus_master_enabled, config.enabled_vfs > 0
        if is_mastering > self._was_mastering or is_enabled > self._was_enabled:
            self._must_search = self._must_place = True
        elif config.vf_bar != self._vf_bar and not config.is_sizing_vf_bar:
            self._must_place = True
        self._was_mastering, self._was_enabled = is_mastering, is_enabled
        self._vf_bar = config.vf_bar
        self._go_on()

    def _go_on(self) -> None:
        """Send the next batch, unless one is under way or the PF must not use the bus."""
        if self._is_waiting or not self._config.bus_master_enabled:
            return
        if self._must_search:
            self._must_search = False
            self._bus = self._found = None
            self._search = [*range(len(ECAM_BASES))]
        if self._search:
            self._send(_bus_reads(self._search[0]), self._searched)
        elif self._must_place and self._bus is not None and self._config.vf_bar:
            self._must_place = False
            self._send(self._writes(self._bus), self._placed)

    def _send(self, requests: list[Request], on_end: Callable[[int], None]) -> None:
        if requests:
            self._is_waiting = True
            self._client.send_requests(requests, on_end)

    def _searched(self, refused: int) -> None:
        """Note the bus if it was found, or search with the next base of the ECAM."""
        self._is_waiting = False
        if self._found is not None:
            self._bus, self._found = self._found, None
            self._search = []
            logger.info("%s: configuration space of its bus at %#x", self._name, self._bus)
        else:
            del self._search[0]
            if not self._search and not self._has_lost_the_bus():
                self._complain(
                    f"its bus was not found, {refused} of {_BUSES} reads were refused: a guest's"
                    " IOMMU that translates stops them, or the ECAM is at an unknown address"
                )
        self._go_on()

    def _writes(self, bus: int) -> list[Request]:
        """Return the writes that put each VF's BAR where the capability has it."""
        requests: list[Request] = []
        for devfn, vf, bar in self._places():
            if _is_at(vf, bar):
                continue
            space = bus + (devfn << _LOG_FUNCTION)
            command = int.from_bytes(vf.config_read(_COMMAND, 2), "little") | _MEMORY_SPACE
            requests += (
                _write(space + _BAR0, bar & 0xFFFF_FFFF, 4),
                _write(space + _BAR1, bar >> 32, 4),
                _write(space + _COMMAND, command, 2),
            )
        return requests

    def _placed(self, refused: int) -> None:
        """Report whether the writes have arrived at the VFs."""
        self._is_waiting = False
        missing = sum(not _is_at(vf, bar) for _, vf, bar in self._places())
        if not missing:
            self._has_complained = False
            placed = len(self._places())
            logger.info("%s: %d VFs placed at %#x", self._name, placed, self._config.vf_bar)
        elif not self._must_place and not self._has_lost_the_bus():
            self._complain(
                f"{missing} of {len(self._vfs)} writes of a BAR did not arrive, {refused} requests"
                " were refused: is each VF at its function number, and QEMU 10.2 or later?"
            )
        self._go_on()

    def _has_lost_the_bus(self) -> bool:
        """Return whether Bus Master Enable was cleared since the batch began.

        QEMU then refuses requests, and the next Bus Master Enable searches anew. OVMF sets and
        clears it while it assigns resources (PciBusDxe: PciTestSupportedAttribute).
        """
        return self._must_search or not self._config.bus_master_enabled

    def _places(self) -> list[tuple[int, PciFunction, int]]:
        """Return number of device and function, function, and address of BAR 0 of each VF.

        A VF whose address exceeds 64 bits has no place.
        """
        first, stride = self._config.vf_bar, self._config.vf_bar_stride
        places = (
            (number, vf, first + (number - 1) * stride) for number, vf in enumerate(self._vfs, 1)
        )
        return [place for place in places if place[2] < _ADDRESSES]

    def _complain(self, why: str) -> None:
        """Log once, until the next success, that the VFs cannot be used."""
        if not self._has_complained:
            self._has_complained = True
            logger.warning("%s: %s: %s", self._name, NO_PLACE, why)


def _bus_reads(number: int) -> list[Request]:
    """Return the reads of one byte on each bus, for the base of this number."""
    last = CONFIG_SPACE_SIZE - _BUSES * (number + 1)
    return [
        (
            VfioCommand.DMA_READ,
            _RANGE.pack(ECAM_BASES[number] + (bus << _LOG_BUS) + last + bus, 1),
        )
        for bus in range(_BUSES)
    ]


def _write(address: int, value: int, length: int) -> Request:
    data = value.to_bytes(length, "little")
    return VfioCommand.DMA_WRITE, _RANGE.pack(address, length) + data


def _is_at(vf: PciFunction, bar: int) -> bool:
    """Return whether the VF's BAR 0 has this address, and its Memory Space Enable is set."""
    address = int.from_bytes(vf.config_read(_BAR0, 8), "little") & ~_TYPE_BITS
    return address == bar and bool(vf.config_read(_COMMAND, 1)[0] & _MEMORY_SPACE)
