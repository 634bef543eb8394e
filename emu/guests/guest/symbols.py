"""gdb's view of a guest: its kernel's symbols, and the addresses of its modules.

The modules' files are read from the guest itself; their symbol tables name every function. Files
with debugging information are used instead where a build tree or Debian's dbg package has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from emu.guests.channel import frames
from emu.guests.errors import LabError
from emu.guests.guest.guest import Guest

_TIMEOUT = 120.0
_DEBUG = Path("/usr/lib/debug")
_MAX_MODULES = 100
_MAX_BYTES = 256 << 20
_LIST = r"""
cd /sys/module
for module in mlx* ib_* rdma_* iw_*; do
    [ -d "$module/sections" ] || continue
    echo "module $module $(modinfo -n "$module")"
    grep -H . $module/sections/.[!.]*
done
"""
_MODULE = re.compile(r"module (\w{1,64}) (/[\w/.+-]{1,200}\.ko)")
_SECTION = re.compile(r"\w{1,64}/sections/(\.[\w.]{1,64}):0x([0-9a-f]{1,16})")
_FREED = (".init", ".exit", ".note", ".gnu", ".strtab", ".symtab", ".return", ".altinstr")


@dataclass
class LoadedModule:
    """A module that the guest has loaded: its file there, and its sections' addresses."""

    name: str
    file: Path
    sections: dict[str, int] = field(default_factory=dict)


def parse(text: str) -> list[LoadedModule]:
    """Return the modules in the guest's answer, at most 100, without sections freed after loading.

    Lines of another form are ignored; modules without an address of ``.text`` are left out.
    """
    modules: list[LoadedModule] = []
    for line in text.splitlines():
        if match := _MODULE.fullmatch(line):
            modules.append(LoadedModule(match[1], Path(match[2])))
        elif not modules or not (match := _SECTION.fullmatch(line)):
            continue
        elif int(match[2], 16) and not match[1].startswith(_FREED):
            modules[-1].sections[match[1]] = int(match[2], 16)
    return [module for module in modules if ".text" in module.sections][:_MAX_MODULES]


def commands(
    socket: Path, vmlinux: Path | None, modules: list[LoadedModule], files: Mapping[str, Path]
) -> str:
    """Return gdb's commands as text: symbols first, then the connection to ``socket``.

    ``files`` maps module names to files of the host. ``vmlinux`` None leaves out the kernel's
    symbols.
    """
    lines = ["set confirm off", "set architecture i386:x86-64"]
    if vmlinux is not None:
        lines.append(f"file {vmlinux}")
    for module in modules:
        rest = sorted((name, at) for name, at in module.sections.items() if name != ".text")
        words = [f"add-symbol-file {files[module.name]} {module.sections['.text']:#x}"]
        words += [f"-s {name} {at:#x}" for name, at in rest]
        lines.append(" ".join(words))
    return "\n".join([*lines, "set confirm on", f"target remote {socket}", ""])


def script(guest: Guest) -> Path:
    """Write gdb's commands for the guest's loaded modules to a file in its logs; return the file.

    Modules without debugging information on the host are copied out of the guest. Raises
    :class:`LabError` for a guest without ``gdb``, GuestError when the guest fails.
    """
    if guest.gdb_socket is None:
        raise LabError("the guest accepts no debugger: start it with --gdb")
    modules = parse(guest.run(_LIST, timeout=_TIMEOUT).stdout)
    tree = guest.options.modules
    where = guest.logs / "modules"
    where.mkdir(exist_ok=True)
    files = {module.name: _file(guest, module, tree, where) for module in modules}
    vmlinux = _vmlinux(tree, guest.kernel_release)
    path = guest.logs / "gdb-commands"
    path.write_text(commands(guest.gdb_socket, vmlinux, modules, files))
    return path


def _vmlinux(tree: Path | None, release: str) -> Path | None:
    """Return the kernel's ELF with debugging information on the host; None if there is none."""
    places = [] if tree is None else [tree / "vmlinux"]
    places += [_DEBUG / "boot" / f"vmlinux-{release}", _DEBUG / f"lib/modules/{release}/vmlinux"]
    return next((path for path in places if path.is_file()), None)


def _file(guest: Guest, module: LoadedModule, tree: Path | None, where: Path) -> Path:
    """Return the module's file on the host, with debugging information if found, else a copy.

    A module without such a file is copied out of the guest into ``where``.
    """
    _, _, below = str(module.file).partition(f"/{guest.kernel_release}/kernel/")
    places = [_DEBUG / "lib/modules" / guest.kernel_release / "kernel" / below]
    if tree is not None:
        places.append(tree / below)
    for path in places:
        if below and path.is_file():
            return path
    copy = where / f"{module.name}.ko"
    copy.write_bytes(_contents(guest, module.file))
    return copy


def _contents(guest: Guest, path: Path) -> bytes:
    """Return a file of the guest, or its first 256 MiB; raise CommandFailedError if unreadable."""
    data = bytearray()

    def take(kind: int, part: bytes) -> None:
        if kind == frames.STDOUT and len(data) < _MAX_BYTES:
            data.extend(part)

    guest.run(["cat", str(path)], timeout=_TIMEOUT, sink=take).check()
    return bytes(data)
