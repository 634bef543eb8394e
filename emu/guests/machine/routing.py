"""Places of a physical function and its virtual functions (VFs) behind a root port of QEMU.

VF n, from 1 on, is n functions after its physical function (``emu.device.pci.sriov``): devices of
eight functions each, which Linux reaches by alternative routing (ARI).
"""

from __future__ import annotations

from typing import Final

_FUNCTIONS: Final = 8
_BAR_MIB: Final = 32
"""Size of BAR 0 of every function in MiB (``emu.device.models.model.BAR0_BYTES``)."""


def address_option(number: int) -> dict[str, object]:
    """Return the options of QEMU for the address of VF ``number``; 0 is the physical function."""
    device, function = divmod(number, _FUNCTIONS)
    address: dict[str, object] = {"addr": f"{device:x}.{function}"}
    return address if function else address | {"multifunction": True}


def window_option(vfs: int) -> str:
    """Return the option of a root port that reserves addresses for the BARs; "" without VFs.

    SeaBIOS gives the port a window of that size. Linux does so by itself where it makes the window,
    as after a saved boot.
    """
    return f",pref64-reserve={(vfs + 1) * _BAR_MIB}M" if vfs else ""
