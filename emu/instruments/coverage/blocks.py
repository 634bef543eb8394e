"""Block coverage of any kernel under TCG: builds the QEMU plugin ``blocks.c`` and reads its map.

The plugin is compiled on first use and cached, and records QEMU's blocks at their translation.
Counted are basic blocks of the module's ``.text`` in objdump's listing. A basic block begins at a
function, at a jump's target, or after a jump, call or return. A basic block ran if QEMU ran a block
that contains its beginning.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import shutil
import struct
import subprocess
import tempfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path

from emu.guests import cache
from emu.guests.architecture import NATIVE
from emu.guests.errors import LabError
from emu.instruments.coverage.data import Blocks
from emu.instruments.coverage.objdump import read_listing, unreadable

MODULE_AREA = (0xFFFFFFFFC0000000, 0xFFFFFFFFFF000000)
"""Address range of x86-64's modules (Documentation/arch/x86/x86_64/mm.rst)."""

_MAGIC = 0x31534B434F4C42
_HEADER = struct.Struct("<6Q")
_CAPACITY = 1 << 17
_ENTRY_BYTES = 13

_COMPILER_FLAGS = ("-O2", "-Wall", "-fPIC", "-shared", "-fvisibility=hidden")


def why_not_here() -> str:
    """Return why this host cannot count blocks of amd64 guests; "" if it can."""
    if NATIVE.name == "amd64":
        return ""
    return (
        f"blocks are counted on amd64 hosts only, whose objdump reads amd64, not on {NATIVE.name}"
    )


def plugin() -> Path:
    """Return the path of the compiled plugin.

    Compile it on first use and cache it by its source's hash. Raises LabError without a C compiler
    or objdump, or with the compiler's message.
    """
    source = resources.files("emu.instruments.coverage").joinpath("blocks.c").read_bytes()
    name = f"blocks-{hashlib.sha256(source).hexdigest()[:16]}.so"
    target = cache.subdir("plugins") / name
    if target.exists():
        return target
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or shutil.which("objdump") is None:
        raise LabError("coverage by block needs a C compiler and objdump: install the package gcc")
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        code, made = Path(work, "blocks.c"), Path(work, name)
        code.write_bytes(source)
        command = [compiler, *_COMPILER_FLAGS, "-o", str(made), str(code)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LabError(f"{compiler} cannot compile QEMU's plugin: {done.stderr.strip()}")
        made.replace(target)
    return target


class BlockMap:
    """The file shared with the plugin; :meth:`close` removes it."""

    def __init__(self, area: tuple[int, int] = MODULE_AREA, capacity: int = _CAPACITY) -> None:
        shared = Path("/dev/shm")
        fd, name = tempfile.mkstemp(prefix="mlx5emu-", dir=shared if shared.is_dir() else None)
        self.path = Path(name)
        self._capacity = capacity
        os.ftruncate(fd, _HEADER.size + _ENTRY_BYTES * capacity)
        self._memory = mmap.mmap(fd, 0)
        os.close(fd)
        self._memory[: _HEADER.size] = _HEADER.pack(_MAGIC, *area, capacity, 0, 0)

    def arguments(self) -> tuple[str, ...]:
        """Return QEMU's arguments that load the plugin."""
        return ("-plugin", f"{plugin()},map={self.path}")

    def executed(self) -> list[tuple[int, int]]:
        """Return address and length of each QEMU block that ran, sorted by address.

        Only blocks since the last :meth:`clear` count. Blocks that found the file full are missing;
        :attr:`lost` counts them.
        """
        count = min(_HEADER.unpack_from(self._memory)[4], self._capacity)
        at = _HEADER.size
        addresses = struct.unpack_from(f"<{count}Q", self._memory, at)
        lengths = struct.unpack_from(f"<{count}I", self._memory, at + 8 * self._capacity)
        start = at + 12 * self._capacity
        ran = self._memory[start : start + count]
        return sorted(
            (address, length) for address, length, once in zip(addresses, lengths, ran) if once
        )

    def clear(self) -> None:
        """Mark all blocks as not run.

        The guest may continue meanwhile. Known blocks and ``lost`` stay.
        """
        count = min(_HEADER.unpack_from(self._memory)[4], self._capacity)
        at = _HEADER.size + 12 * self._capacity
        self._memory[at : at + count] = bytes(count)

    @property
    def lost(self) -> int:
        """Number of translations that found the file full; their blocks are not counted."""
        return int(_HEADER.unpack_from(self._memory)[5])

    def close(self) -> None:
        """Remove the file."""
        self._memory.close()
        self.path.unlink(missing_ok=True)


_LABEL = re.compile(r"([0-9a-f]+) <(.+)>:$")
_INSTRUCTION = re.compile(
    r" *([0-9a-f]+):\t((?:(?:bnd|notrack|rep[nz]*|ds|cs|data16) )*)(\S+)(?: +([0-9a-f]+)\b)?"
)
_ENDS = re.compile(r"(j\w+|call\w*|ret\w*|ud2|loop\w*)$")
_PADDING = re.compile(r"(nop\w*|int3|xchg)$")


def leaders(module: Path) -> list[int]:
    """Return offsets of basic blocks in a module file's ``.text``, sorted.

    Raises LabError without objdump, and if objdump fails or finds no code.
    """
    starts = read_listing(module, leaders_of, purpose="coverage by block")
    if not starts:
        raise unreadable(module)
    return starts


def leaders_of(listing: Iterable[str]) -> list[int]:
    """Return offsets of basic blocks in objdump's listing, sorted.

    Padding between functions is left out. A target outside the listing is ignored. The list is
    empty for a listing without instructions.
    """
    begins: set[int] = set()
    known: set[int] = set()
    padding: set[int] = set()
    after = False
    for line in listing:
        label, instruction = _LABEL.match(line), _INSTRUCTION.match(line)
        if label is not None and not label[2].startswith("__pfx_"):
            begins.add(int(label[1], 16))
        if instruction is None:
            continue
        at, mnemonic = int(instruction[1], 16), instruction[3]
        known.add(at)
        if after:
            begins.add(at)
        if _PADDING.match(mnemonic):
            padding.add(at)
        after = _ENDS.match(mnemonic) is not None
        if after and instruction[4] and not mnemonic.startswith("call"):
            begins.add(int(instruction[4], 16))
    return sorted(begins & known - padding)


def measure(
    shared: BlockMap, files: Mapping[str, Path], bases: Mapping[str, int]
) -> dict[str, Blocks]:
    """Return, by module, the total of its basic blocks and the offsets of those that ran.

    ``bases`` has the load address of each module's ``.text``; ``files`` are disassembled. Raises
    LabError as :func:`leaders` does.
    """
    executed = shared.executed()
    result = {}
    for module, path in files.items():
        begins = leaders(path)
        result[module] = Blocks(total=len(begins), ran=list(ran(begins, executed, bases[module])))
    return result


def ran(begins: list[int], blocks: Iterable[tuple[int, int]], base: int) -> Iterator[int]:
    """Yield, in order, the ``begins`` inside any of ``blocks``, each once.

    ``begins`` are sorted offsets in ``.text``, whose load address is ``base``. Blocks are (address,
    length) and may overlap.
    """
    done = -1
    for address, length in sorted(blocks):
        start, end = address - base, address - base + length
        at = bisect_right(begins, max(start - 1, done))
        while at < len(begins) and begins[at] < end:
            done = begins[at]
            yield done
            at += 1
