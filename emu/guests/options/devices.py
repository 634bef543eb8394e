"""Options of a guest's emulated functions, and of the networks that they are connected to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from emu.guests.options.declare import option
from emu.guests.options.kinds import File, Flag, OptionKind, Words
from emu.guests.options.uses import MEETING, OF_SERVER, Use

DEFAULT_DEVICE = "connectx6"
_MAX_DEVICES = 16


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Options in the group Devices and network.

    ``devices`` are passed to the server unchanged, one emulated function each. ``network`` adds a
    virtio network card connected to the host's network.
    """

    GROUP: ClassVar = "Devices and network"

    devices: tuple[str, ...] = option(
        (DEFAULT_DEVICE,),
        flag="device",
        kind=Words(metavar="SPEC"),
        help="Emulated function: a MODEL of `mlx5emu models`, then settings (`mlx5emu guide "
        "using`), as in connectx6dx,vfs=4; may be repeated.",
        tables={Use.CAMPAIGN: "device"},
        wrong=lambda o: f"at most {_MAX_DEVICES}" if len(o.devices) > _MAX_DEVICES else "",
    )
    network: bool = option(
        False,
        flag="network",
        kind=Flag(),
        help="Add a virtio network card connected to the host's network.",
        is_recorded=True,
    )
    transport: str | None = option(
        None,
        flag="transport",
        kind=OptionKind(metavar="NAME"),
        help="How QEMU reaches the functions: vfio-user (mlx5emu's own server) or libvfio-user "
        "(the C library).",
        otherwise="vfio-user",
        tables=OF_SERVER,
        is_for_server=True,
    )
    fabric: str | None = option(
        None,
        flag="fabric",
        kind=OptionKind(metavar="NAME"),
        help="unix:PATH or tcp:HOST:PORT of a fabric shared with functions of other processes.",
        refused={Use.CAMPAIGN: MEETING, Use.CHAOS: MEETING},
        tables=OF_SERVER,
        is_for_server=True,
    )
    subnet: Path | None = option(
        None,
        flag="subnet",
        kind=File(example="subnet"),
        help="Connect the InfiniBand functions to the subnet of this file, in ibnetdiscover's "
        "format; its manager (opensm) is in the guest. @two-leaves is an example.",
        tables=OF_SERVER,
        is_for_server=True,
        wrong=lambda o: (
            "cannot be used with --fabric: one server has the switches; guests of a lab share it"
            if o.subnet and o.fabric
            else ""
        ),
    )
    nets: tuple[str, ...] = option(
        (),
        flag="net",
        kind=Words(metavar="UPLINK"),
        help="Uplink of the Ethernet functions' segment: user[,mtu=N][,forward=tcp:PORT:PORT], "
        "stream=PATH, tap=NAME; may be repeated.",
        tables=OF_SERVER,
        is_for_server=True,
    )
