"""The virtual functions (VFs) of a physical function, which its SR-IOV capability enables.

Each VF is a function of its own, with its own socket, and exists from the start. Until VF Enable
and NumVFs put it on the bus, it stays in its power-on state: its BAR reads as all-ones, and it
neither does DMA nor raises interrupts.

Source: PCI Express Base 5.0, 9.2.1 and 9.3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from emu.device.models.virtual_functions import virtual_function_of
from emu.device.pci import ConfigSpace, SriovLayout

if TYPE_CHECKING:
    from emu.device.models import Model


class VirtualFunction(Protocol):
    """A virtual function, as its physical function's configuration space controls it."""

    def show_on_bus(self, is_enabled: bool, has_memory: bool) -> None:
        """Join or leave the bus, and decode the BAR or not; leaving resets the function."""


class VirtualFunctions:
    """The VFs of one physical function, in the order of their routing IDs."""

    def __init__(self) -> None:
        self._functions: list[VirtualFunction] = []

    def add(self, function: VirtualFunction) -> None:
        """Add the next VF, off the bus."""
        self._functions.append(function)

    def __len__(self) -> int:
        return len(self._functions)

    def follow(self, config: ConfigSpace) -> None:
        """Apply VF Enable, NumVFs and VF Memory Space Enable of the PF's configuration space."""
        if self._functions:
            number, has_memory = config.enabled_vfs, config.decodes_vf_memory
            for at, function in enumerate(self._functions):
                function.show_on_bus(at < number, has_memory)


def sriov_layout(model: Model) -> SriovLayout | None:
    """Return what the SR-IOV capability of a physical function advertises; None without VFs."""
    if not model.total_vfs:
        return None
    vf = virtual_function_of(model)
    return SriovLayout(model.total_vfs, vf.identity.device_id, vf.bar0_size)
