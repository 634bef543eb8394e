"""The functions that a server serves, each with its socket: devices, then their virtual functions.

Virtual functions have the numbers after those of all devices, in the order of the devices. The
socket of a virtual function is beside that of its physical function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from emu.server.service.devicespec import DeviceSpec, DeviceSpecError
from emu.server.vfio.kinds import DEFAULT_KIND
from layouts.enums.caps import PortType


@dataclass(frozen=True, slots=True)
class ServedDevice:
    """A function, and its socket."""

    socket: Path
    spec: DeviceSpec
    pf: int | None = None
    """Number of the physical function of a virtual one; None for other functions."""
    vf: int = 0
    """Number of a virtual function among those of its physical one, from 0 on."""


def function_number(index: int, device: ServedDevice) -> str:
    """Return the index of a function; for a virtual one its name, such as ``0.vf1``."""
    return str(index) if device.pf is None else vf_name(device.pf, device.vf)


def vf_name(pf: int, number: int) -> str:
    """Return the name of the virtual function ``number``, from 0 on, of the function ``pf``."""
    return f"{pf}.vf{number}"


def vf_socket(socket: Path, number: int) -> Path:
    """Return the socket of the VF ``number``, from 0 on, of the function on ``socket``."""
    return socket.with_name(f"{socket.name}.vf{number}")


def with_vfs(devices: Sequence[ServedDevice]) -> list[ServedDevice]:
    """Return the devices, then the virtual functions of each."""
    vfs = [
        ServedDevice(vf_socket(device.socket, number), spec, pf, number)
        for pf, device in enumerate(devices)
        for number, spec in enumerate(device.spec.vfs)
    ]
    return [*devices, *vfs]


def names_of_guests(devices: Sequence[ServedDevice], guests: Sequence[str]) -> list[str]:
    """Return the name of each function's guest: a virtual function has its physical one's.

    ``guests`` has those of the other functions, or is empty; the result then is, too.
    """
    if not guests:
        return []
    return [guests[at if one.pf is None else one.pf] for at, one in enumerate(devices)]


def check_vfs(specs: Sequence[DeviceSpec], transport: str, *, has_subnet: bool) -> None:
    """Raise :class:`DeviceSpecError` for virtual functions that cannot be served.

    Their BARs are placed by messages of our own vfio-user server. The adapters of a subnet from a
    file are functions with ports of their own.
    """
    for spec in specs:
        if spec.vfs and transport != DEFAULT_KIND:
            raise DeviceSpecError(f"vfs: not supported with --transport {transport}")
        if spec.vfs and has_subnet and spec.model.port_type is PortType.IB:
            raise DeviceSpecError("vfs: InfiniBand functions with --subnet have none")
