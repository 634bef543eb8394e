"""A physical function and its virtual functions (VFs) as devices behind a root port of QEMU.

VF n, from 1 on, is n functions after its physical function (``emu.device.pci.sriov``): devices of
eight functions each, which Linux reaches by alternative routing (ARI).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

REPLY_TIMEOUT_MS: Final = 60_000
"""Milliseconds that QEMU waits for the server.

A later reply breaks the connection for good, so this is much longer than the default of 5 s.
"""
_FUNCTIONS: Final = 8
_PF_BAR_MIB: Final = 32
_VF_BAR_MIB: Final = 1
"""Size of BAR 0 in MiB (``emu.device.models.model.BAR0_BYTES``, ``.virtual_functions``)."""


def address_option(number: int) -> dict[str, object]:
    """Return the options of QEMU for the address of VF ``number``; 0 is the physical function."""
    device, function = divmod(number, _FUNCTIONS)
    address: dict[str, object] = {"addr": f"{device:x}.{function}"}
    return address if function else address | {"multifunction": True}


def root_port(name: str, slot: int, vfs: int) -> str:
    """Return the option of a root port, which reserves addresses for the BARs of VFs.

    SeaBIOS gives the port a window of that size. Linux does so by itself where it makes the window,
    as after a saved boot. Slot 0 of a chassis is not valid for a port that can hot-plug.
    """
    window = f",pref64-reserve={_PF_BAR_MIB + vfs * _VF_BAR_MIB}M" if vfs else ""
    return f"pcie-root-port,id={name},chassis={slot},slot={slot}{window}"


def function_options(socket: Path) -> dict[str, object]:
    """Return the options of the device that QEMU reaches on ``socket``."""
    return {
        "driver": "vfio-user-pci",
        "socket": {"type": "unix", "path": str(socket)},
        "x-msg-timeout": REPLY_TIMEOUT_MS,
    }
