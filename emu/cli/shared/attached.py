"""Options of QEMU, and of a User-Mode Linux kernel, that attach served functions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from emu.guests.machine.routing import address_option, function_options, root_port
from emu.host.user_error import UserError
from emu.server.service.endpoints import ServedDevice
from emu.server.service.transports import DEVICE_ID, VHOST_USER

_MEMORY = "2G"


def attached(transport: str, device: ServedDevice) -> str:
    """Return the option that attaches a function to QEMU, or to a User-Mode Linux kernel."""
    if transport == VHOST_USER:
        return f"virtio_uml.device={device.socket.absolute()}:{DEVICE_ID}"
    return f"-device '{_qemu_option(device)}'"


def example(devices: Sequence[ServedDevice]) -> str:
    """Return a command line of QEMU with ``devices``, for display.

    Virtual functions are behind the root port of their physical one. The program is the suitable
    QEMU that is installed or cached, else ``"$(mlx5emu qemu)"``.
    """
    from emu.guests.machine import qemu

    try:
        system_qemu = qemu.find()
    except UserError:
        system_qemu = None
    program = (
        '"$(mlx5emu qemu)"'
        if system_qemu is None
        else shlex.quote(str(qemu.program_path(system_qemu)))
    )
    memory = f"-m {_MEMORY} -object memory-backend-memfd,id=ram,size={_MEMORY},share=on"
    ports = []
    for number, device in enumerate(devices):
        port = f"port{(number if device.pf is None else device.pf) + 1}"
        if device.pf is None:
            ports.append(f"-device {root_port(port, number + 1, len(device.spec.vfs))}")
        ports.append(f"-device '{_qemu_option(device, port)}'")
    return " ".join([program, "-machine q35,memory-backend=ram", memory, *ports, "..."])


def _qemu_option(device: ServedDevice, bus: str = "") -> str:
    """Return the options of QEMU's device; the address only where virtual functions need it."""
    option = function_options(device.socket.absolute())
    if bus:
        option["bus"] = bus
    if device.pf is not None or device.spec.vfs:
        option |= address_option(0 if device.pf is None else device.vf + 1)
    return json.dumps(option)
