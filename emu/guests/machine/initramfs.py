"""The initramfs of one boot: busybox, the modules that mount the root disk, our own programs.

Each boot builds its own (in milliseconds), so changed options or programs take effect without
rebuilding the image.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from importlib import resources

from emu.guests.machine.cpio import Archive

# The program inside the guest and what it imports, by their paths in emu/guests.
_PROGRAMS = ("channel/frames.py", "inside/runner.py")


def build(
    busybox: bytes,
    modules: Sequence[tuple[str, bytes]],
    config: Mapping[str, str | int],
    init: str | None = None,
) -> bytes:
    """Return a cpio archive whose ``/init`` is ``init``, by default the script in ``inside``.

    ``modules`` are names and contents in loading order; ``config`` becomes shell variables of the
    script. The program inside the guest is included.
    """
    lab = resources.files("emu.guests")
    inside = lab.joinpath("inside")
    archive = Archive()
    for path in ("proc", "sys", "dev"):
        archive.directory(path)
    # The kernel opens it for init before init can mount /dev.
    archive.character_device("dev/console", 5, 1)
    archive.file("bin/busybox", busybox, 0o755)
    archive.file("init", (init or inside.joinpath("init.sh").read_text()).encode(), 0o755)
    for name, data in modules:
        archive.file(f"modules/{name}", data)
    archive.file("modules/order", "".join(f"{name}\n" for name, _ in modules).encode())
    archive.file("mlx5emu/config", settings(config).encode())
    for name in ("begin.sh", "load.sh", "probe.sh", "shell.sh"):
        archive.file(f"mlx5emu/{name}", inside.joinpath(name).read_bytes())
    # Packages have the same paths in the guest as on the host, but contain only these files.
    for package in ("emu", "emu/guests", "emu/guests/channel", "emu/guests/inside"):
        archive.file(f"mlx5emu/{package}/__init__.py", b"")
    for name in _PROGRAMS:
        archive.file(f"mlx5emu/emu/guests/{name}", lab.joinpath(name).read_bytes())
    return archive.pack()


def settings(config: Mapping[str, str | int]) -> str:
    """Return lines of shell that set these variables."""
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in config.items())
