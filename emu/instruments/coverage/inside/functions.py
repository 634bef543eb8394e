"""The guest program that counts calls of each function of chosen kernel modules.

One BPF program is attached to all functions of the modules that ftrace can trace (a link of kind
kprobe.multi, Linux 5.18 with CONFIG_FPROBE). Each call adds one to the function's element of an
array, so no event can be lost in a buffer and a stock kernel suffices. Calls made while the BPF
program runs on the same processor are not counted; the kernel reports their number.

The modules load with PCI autoprobe disabled, so the counters are attached before the first probe.
Initialization functions have run by then and their memory is freed. ftrace's function tracer,
enabled only during loading, records them.

The program prints the counts when its standard input ends.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import subprocess
from pathlib import Path

from emu.instruments.coverage.inside.modules import (
    AUTOPROBE,
    PROBE_SCRIPT,
    CoverageError,
    base,
    check,
    check_unloaded,
    directory,
    in_order,
    lines,
    run,
    symbols,
    tell,
    wait_for_end,
)

TRACING = Path("/sys/kernel/tracing")
TRACE_KIB = 16384  # per processor, while modules load

_SYS_BPF = {"x86_64": 321}
_MAP_CREATE, _PROG_LOAD, _OBJ_GET_INFO_BY_FD, _LINK_CREATE = 0, 5, 15, 28
_ARRAY, _MMAPABLE = 2, 1 << 10
_KPROBE, _KPROBE_MULTI = 2, 42
_LOOKUP_ELEM, _GET_ATTACH_COOKIE = 1, 174
_INFO_SIZE, _RECURSION_MISSES = 216, 208
"""include/uapi/linux/bpf.h: ``struct bpf_prog_info`` up to ``recursion_misses``."""


def bpf(command: int, attributes: bytes) -> int:
    """Make a system call bpf; return its result, mostly a descriptor.

    Raises OSError if the kernel refuses, and KeyError on other processors than x86-64.
    """
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    libc = ctypes.CDLL(None, use_errno=True)
    result: int = libc.syscall(_SYS_BPF[platform.machine()], command, buffer, len(attributes))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def counting_program(counters: int) -> bytes:
    """Return BPF instructions that add one to the array element whose index is the attach cookie.

    ``counters`` is the array map's descriptor.
    """

    def instruction(code: int, dst: int = 0, src: int = 0, off: int = 0, imm: int = 0) -> bytes:
        return struct.pack("<BBhi", code, dst | src << 4, off, imm)

    return b"".join(
        (
            instruction(0x85, imm=_GET_ATTACH_COOKIE),
            instruction(0x63, dst=10, src=0, off=-4),  # *(u32 *)(r10 - 4) = r0
            instruction(0x18, dst=1, src=1, imm=counters),  # r1 = the map, in two instructions
            instruction(0x00),
            instruction(0xBF, dst=2, src=10),  # r2 = r10 - 4
            instruction(0x07, dst=2, imm=-4),
            instruction(0x85, imm=_LOOKUP_ELEM),
            instruction(0x15, dst=0, off=2, imm=0),  # no such element: skip two
            instruction(0xB7, dst=1, imm=1),
            instruction(0xDB, dst=0, src=1),  # lock *(u64 *)r0 += r1
            instruction(0xB7, dst=0, imm=0),
            instruction(0x95),
        )
    )


class Counters:
    """Counters of kernel functions, by address."""

    def __init__(self, addresses: list[int]) -> None:
        """Attach the counters. Raises OSError if the kernel refuses."""
        size = 8 * len(addresses)
        self._map = bpf(_MAP_CREATE, struct.pack("<5I", _ARRAY, 4, 8, len(addresses), _MMAPABLE))
        self._memory = mmap.mmap(self._map, size)
        self._program = self._load()
        numbers = (ctypes.c_uint64 * len(addresses))(*addresses)
        cookies = (ctypes.c_uint64 * len(addresses))(*range(len(addresses)))
        attributes = struct.pack(
            "<6I3Q", self._program, 0, _KPROBE_MULTI, 0, 0, len(addresses),
            0, ctypes.addressof(numbers), ctypes.addressof(cookies),
        )  # fmt: skip
        self._link = bpf(_LINK_CREATE, attributes)
        self._count = len(addresses)

    def _load(self) -> int:
        """Load the counting program.

        Return its descriptor. Raises OSError if the kernel refuses.
        """
        code = counting_program(self._map)
        text = ctypes.create_string_buffer(code, len(code))
        # The helpers are for GPL-compatible programs only; kernel/bpf/core.c, license.h.
        license_name = ctypes.create_string_buffer(b"Dual MIT/GPL")
        attributes = struct.pack(
            "<2I2Q2IQ2I16s2I", _KPROBE, len(code) // 8, ctypes.addressof(text),
            ctypes.addressof(license_name), 0, 0, 0, 0, 0, b"mlx5emu", 0, _KPROBE_MULTI,
        )  # fmt: skip
        return bpf(_PROG_LOAD, attributes)

    def read(self) -> list[int]:
        """Return the number of calls of each function so far."""
        return list(struct.unpack(f"<{self._count}Q", self._memory[: 8 * self._count]))

    def missed(self) -> int:
        """Return the number of calls that the kernel did not count (recursion_misses).

        Raises OSError.
        """
        info = ctypes.create_string_buffer(_INFO_SIZE)
        bpf(
            _OBJ_GET_INFO_BY_FD,
            struct.pack("<2IQ", self._program, _INFO_SIZE, ctypes.addressof(info)),
        )
        return int.from_bytes(info.raw[_RECURSION_MISSES:], "little")


def traceable(known: dict[str, list[tuple[int, str]]]) -> dict[str, list[tuple[int, str]]]:
    """Return the symbols that ftrace can trace now, by module, sorted by address.

    The addresses are those of ``known``: ftrace may list an address inside the function (after
    ``endbr64``). BPF accepts such an address but then cannot find the function.
    """
    names: dict[str, set[str]] = {module: set() for module in known}
    for name, *rest in map(str.split, lines(TRACING / "available_filter_functions")):
        if rest and rest[0][1:-1] in names:
            names[rest[0][1:-1]].add(name)
    return {
        module: sorted((address, name) for address, name in functions if name in names[module])
        for module, functions in known.items()
    }


def load(module: str) -> set[str]:
    """Load a module.

    Return the names of functions that ran meanwhile, with those of its dependencies. Raises
    CoverageError if modprobe fails, or if ftrace lost events. Leaves the function tracer on.
    """
    (TRACING / "trace").write_text("")
    with (TRACING / "set_ftrace_filter").open("a") as file:
        file.write(f":mod:{module}\n")
    (TRACING / "current_tracer").write_text("function")
    check(run("modprobe", module))
    if any(map(_lost, TRACING.glob("per_cpu/cpu*/stats"))):
        raise CoverageError(f"ftrace lost events while {module} was loading")
    # "  modprobe-123 [000] ..... 5.1: mlx5_init <-do_one_initcall"
    return {
        line.split(": ", 1)[1].split()[0]
        for line in lines(TRACING / "trace")
        if not line.startswith("#") and " <-" in line
    }


def owned(ran: dict[str, set[str]], known: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return name and module of the functions that ran while each module was loading, sorted.

    A function that ran during several loads appears once for each of them. A name that no module
    has any more is freed init code of the module that was loading. A name of several modules counts
    for the loading one, else for the first in the order of ``known``.
    """
    return sorted(
        (name, next((one for one in (current, *known) if name in known[one]), current))
        for current, names in ran.items()
        for name in names
    )


def _lost(stats: Path) -> bool:
    """Return whether a processor's trace buffer lost events, from its ``stats`` file."""
    named = (line.split(":") for line in stats.read_text().splitlines())
    lost = ("overrun", "commit overrun", "dropped events")
    return any(int(value) > 0 for name, value in named if name in lost)


def end_trace() -> None:
    """Stop ftrace's tracer, clear its filter and shrink its buffers to 1 KiB."""
    (TRACING / "current_tracer").write_text("nop")
    (TRACING / "set_ftrace_filter").write_text("")
    (TRACING / "buffer_size_kb").write_text("1")


def main(modules: list[str]) -> None:
    """Load the modules, attach counters, let drivers probe, and count until standard input ends.

    Writes the line ``ready``, then the counts. Raises CoverageError if the kernel lacks ftrace or
    FPROBE, or a module is loaded already, built in or cannot be loaded. PCI autoprobe stays off.
    """
    if not (TRACING / "trace").exists():
        subprocess.run(["mount", "-t", "tracefs", "tracefs", str(TRACING)], check=False)
    if not (TRACING / "set_ftrace_filter").exists():
        raise CoverageError("the kernel has no ftrace (CONFIG_FUNCTION_TRACER)")
    check_unloaded(modules)
    AUTOPROBE.write_text("0")
    (TRACING / "buffer_size_kb").write_text(str(TRACE_KIB))
    try:
        ran = {module: load(module) for module in in_order(modules)}
    finally:
        end_trace()
    known = symbols(modules)
    loading = owned(
        ran, {module: {name for _, name in offsets} for module, offsets in known.items()}
    )
    functions = traceable(known)
    try:
        counters = Counters([address for offsets in functions.values() for address, _ in offsets])
    except OSError as error:
        raise CoverageError(
            f"the kernel cannot attach BPF to functions (CONFIG_FPROBE, CONFIG_BPF): {error}"
        ) from error
    places = {module: base(module) for module in modules}
    subprocess.run(["sh", PROBE_SCRIPT], check=False)
    tell(ready=True)
    wait_for_end()
    counts = iter(counters.read())
    offsets = {
        module: {
            "directory": directory(module),
            "base": places[module],
            "functions": [
                (name, address - places[module], next(counts))
                for address, name in functions[module]
            ],
        }
        for module in modules
    }
    tell(release=os.uname().release, modules=offsets, loading=loading, missed=counters.missed())
