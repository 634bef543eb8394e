"""Configuration space of one function, 4096 bytes, as the bus reads and writes it.

The capabilities are at the offsets of real ConnectX adapters, and in their order, so that the
output of ``lspci -vv`` matches (``examples/real-cards``). A virtual function has neither Vital
Product Data nor the vendor-specific gateway: mlx5_core uses these on a PF only (core/lib/pci_vsc.c:
mlx5_pci_vsc_init).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from emu.device.pci.aer import aer_capability, record_error
from emu.device.pci.capabilities import (
    D0,
    Capability,
    ExtendedCapability,
    access_control,
    alternative_routing,
    chain,
    header,
    msix,
    power_management,
    secondary_express,
)
from emu.device.pci.express import express_capability
from emu.device.pci.icmd import Icmd
from emu.device.pci.identity import PciIdentity
from emu.device.pci.registers import SPACE_BYTES, Bank
from emu.device.pci.sriov import (
    SriovLayout,
    decodes_vf_memory,
    enabled_vfs,
    holds_sizing_pattern,
    sriov_capability,
    vf_bar,
    vf_bar_stride,
)
from emu.device.pci.vpd import build_image, vpd_capability
from emu.device.pci.vsc import CrSpaceAccess, Vsc, WordSpace
from emu.device.ports import Buffer

logger = logging.getLogger(__name__)

MAX_MSIX_VECTORS: Final = 2048

_MSIX_ENTRY_BYTES: Final = 16
_PBA_WORD_BYTES: Final = 8
_PBA_WORD_VECTORS: Final = 64
_SMALLEST_BAR: Final = 4096

_ARI_AT: Final = 0x150
_SRIOV_AT: Final = 0x180
_VENDOR_SPECIFIC: Final = (0x000B).to_bytes(2, "little")
_IDS_BYTES: Final = 4
"""Bytes of vendor id and device id, at the start of the space."""


class ConfigSpace:
    """One function's configuration space.

    No read or write by a guest raises; offsets and lengths must not be negative. ``on_flr`` is
    called after a function-level reset of these registers, to reset the rest of the function.
    ``on_flr`` must not call :meth:`reset`, which would also clear the sticky fields.
    """

    def __init__(
        self,
        identity: PciIdentity,
        *,
        bar0_size: int,
        bar2_size: int = 0,
        msix_vectors: int,
        msix_table_offset: int = 0x2000,
        msix_pba_offset: int = 0x3000,
        on_flr: Callable[[], None],
        crspace: CrSpaceAccess,
        icmd: Icmd,
        boot_nic: WordSpace | None = None,
        sriov: SriovLayout | None = None,
        is_sriov_vf: bool = False,
    ) -> None:
        """Build the registers; ``bar2_size`` is 0 or a power of two of at least 4 KiB.

        ``sriov`` gives a physical function the SR-IOV capability. ``is_sriov_vf`` marks a virtual
        function that such a capability enables: its ids read as all-ones (9.3.4.1.1). A read of all
        4096 bytes shows the ids of a VF, and SR-IOV and ARI as vendor-specific. QEMU makes such a
        read once, for its own device, and drops both capabilities by their ids (hw/vfio/pci.c:
        vfio_add_ext_cap). The guest's reads are shorter and pass through.

        Raises ValueError for an invalid BAR 0 size, or MSI-X structures that do not fit in it.
        """
        _check_bar0(bar0_size, msix_vectors, msix_table_offset, msix_pba_offset)
        self._on_flr = on_flr
        self._flr_requested = False
        self._sriov = sriov
        self._is_sriov_vf = is_sriov_vf
        self._vsc = None if identity.is_vf else Vsc(crspace, icmd, boot_nic)
        express = express_capability(identity, self._request_flr, is_sriov_vf=is_sriov_vf)
        capabilities: list[tuple[int, Capability]] = [(0x60, express)]
        if self._vsc:
            capabilities.append((0x48, vpd_capability(build_image(identity))))
        capabilities.append((0x9C, msix(msix_vectors, msix_table_offset, msix_pba_offset)))
        if self._vsc:
            capabilities.append((0xC0, self._vsc.capability()))
        capabilities.append((0x40, power_management()))
        extended: list[tuple[int, ExtendedCapability]] = [
            (0x100, aer_capability()),
            (_ARI_AT, alternative_routing()),
            *([(_SRIOV_AT, sriov_capability(sriov))] if sriov else ()),
            (0x1C0, secondary_express(identity.link_width)),
            (0x230, access_control()),
        ]
        first, _ = capabilities[0]
        self._bank = Bank(
            [
                (0, header(identity, bar0_size, bar2_size, first)),
                *chain(capabilities),
                *chain(extended),
            ]
        )

    def read(self, offset: int, length: int) -> bytes:
        """Read ``length`` bytes; bytes beyond the space are all-ones."""
        inside = self._bank.read(offset, length)
        if not offset and length == SPACE_BYTES:
            return self._as_whole(inside)
        if self._is_sriov_vf and offset < _IDS_BYTES:
            ids = min(_IDS_BYTES - offset, length)
            inside = b"\xff" * ids + inside[ids:]
        return inside + b"\xff" * (length - len(inside))

    def _as_whole(self, space: bytes) -> bytes:
        """Return the space of a PF with VFs with SR-IOV and ARI as vendor-specific capabilities."""
        if self._sriov is None:
            return space
        shown = bytearray(space)
        for at in (_ARI_AT, _SRIOV_AT):
            shown[at : at + len(_VENDOR_SPECIFIC)] = _VENDOR_SPECIFIC
        return bytes(shown)

    def write(self, offset: int, data: Buffer) -> None:
        """Write the writable bits; bytes beyond the space are ignored.

        Initiate Function Level Reset takes effect after the whole write: all registers but the
        sticky fields are reset, then ``on_flr`` is called. A register's own side effects run before
        that.
        """
        self._bank.write(offset, data)
        if self._flr_requested:
            self._flr_requested = False
            logger.info("function-level reset")
            self._clear(keep_sticky=True)
            self._on_flr()

    def reset(self) -> None:
        """Return to the state after power-on, sticky fields included; ``on_flr`` is not called."""
        self._clear(keep_sticky=False)

    def _clear(self, *, keep_sticky: bool) -> None:
        self._bank.reset(keep_sticky=keep_sticky)
        if self._vsc:
            self._vsc.reset()

    def _request_flr(self) -> None:
        self._flr_requested = True

    def report_error(self, *, correctable: bool, status_bit: int) -> None:
        """Record an error in AER and Device Status; no error message is sent.

        ``status_bit`` is a :class:`emu.device.pci.Correctable` or
        :class:`emu.device.pci.Uncorrectable`. Raises ValueError for a bit that the status register
        does not have.
        """
        record_error(
            self._bank["aer"],
            self._bank["express"],
            correctable=correctable,
            status_bit=status_bit,
        )

    @property
    def enabled_vfs(self) -> int:
        """Number of virtual functions on the bus; 0 without the SR-IOV capability."""
        return enabled_vfs(self._bank["sriov"]) if self._sriov else 0

    @property
    def decodes_vf_memory(self) -> bool:
        """Whether the BARs of virtual functions are decoded."""
        return self._sriov is not None and decodes_vf_memory(self._bank["sriov"])

    @property
    def vf_bar(self) -> int:
        """Address of the first virtual function's BAR 0; 0 for none so far."""
        return vf_bar(self._bank["sriov"]) if self._sriov else 0

    @property
    def vf_bar_stride(self) -> int:
        """Bytes from one virtual function's BAR 0 to the next; 0 without the SR-IOV capability."""
        return vf_bar_stride(self._bank["sriov"], self._sriov) if self._sriov else 0

    @property
    def is_sizing_vf_bar(self) -> bool:
        """Whether the VF BAR holds the ones by which software sizes it."""
        sriov = self._sriov
        return sriov is not None and holds_sizing_pattern(self._bank["sriov"], sriov)

    @property
    def power_state(self) -> int:
        """The power state: 0 for D0, 3 for D3hot."""
        return self._bank["power"]["control"] & 3

    @property
    def memory_enabled(self) -> bool:
        """Whether BAR 0 is decoded: Memory Space Enable, in D0."""
        return self.in_d0 and bool(self._bank["header"]["command"] & 1 << 1)

    @property
    def bus_master_enabled(self) -> bool:
        """Whether the function may do DMA and raise interrupts: Bus Master Enable, in D0."""
        return self.in_d0 and bool(self._bank["header"]["command"] & 1 << 2)

    @property
    def in_d0(self) -> bool:
        """Whether the function is in power state D0."""
        return self.power_state == D0


def _check_bar0(size: int, vectors: int, table: int, pba: int) -> None:
    """Raise ValueError unless table and PBA are in the BAR, apart and aligned to 8 bytes (7.7.2).

    ValueError also for a size that is not a power of two of at least 4 KiB, and unless 1 to
    MAX_MSIX_VECTORS vectors exist.
    """
    if size < _SMALLEST_BAR or size & size - 1:
        raise ValueError(f"BAR 0 of {size:#x} bytes: not a power of two of at least 4 KiB")
    if not 1 <= vectors <= MAX_MSIX_VECTORS:
        raise ValueError(f"{vectors} MSI-X vectors: not 1 to {MAX_MSIX_VECTORS}")
    table_end = table + vectors * _MSIX_ENTRY_BYTES
    pba_end = pba + -(-vectors // _PBA_WORD_VECTORS) * _PBA_WORD_BYTES
    apart = table_end <= pba or pba_end <= table
    if table % 8 or pba % 8 or not apart or max(table_end, pba_end) > size:
        raise ValueError(f"MSI-X table at {table:#x} and PBA at {pba:#x} do not fit in BAR 0")
