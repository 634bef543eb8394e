"""Decodes stack traces of a kernel to source lines, from the binaries of its build.

The kernel prints ``function+0x12/0x34 [module]``: an offset from the function's symbol, and its
length. The symbol's address is read from the binary's symbol table, the source line from
addr2line(1). Of several functions with one name, the one of that length is meant.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from emu.guests.errors import LabError
from emu.guests.kernel.modules import module_name

_FRAME = re.compile(
    r"(?P<symbol>[A-Za-z_.][\w.]*)\+0x(?P<offset>[0-9a-f]+)/0x(?P<length>[0-9a-f]+)"
    r"(?: \[(?P<module>\w+)[^\]]*\])?"
)
_MAX_LINES = 100_000
_SHF_EXECINSTR = 4

Symbols = dict[tuple[str, int], tuple[str, int]]
"""Section and address of a function, by its name and length."""


class StackTraceDecoder:
    """Resolves frames in the vmlinux and the modules below a build tree."""

    def __init__(self, tree: Path) -> None:
        """Check the tree. Raises :class:`LabError` without vmlinux, or without addr2line."""
        self._vmlinux = tree / "vmlinux"
        if not self._vmlinux.is_file():
            raise LabError(f"no vmlinux in {tree}: stack traces need a kernel's build tree")
        self._program = shutil.which("addr2line")
        if self._program is None:
            raise LabError("addr2line is not installed: install the package binutils")
        self._tree = tree
        self._modules: dict[str, Path] = {}
        self._symbols: dict[Path, Symbols] = {}

    def decode(self, text: str) -> str:
        """Return the text; add the source line after the first frame of a line, if known.

        Unknown frames stay unchanged; text after 100,000 lines is cut. Raises LabError for a binary
        whose symbols cannot be read.
        """
        lines = text.splitlines()[:_MAX_LINES]
        frames = [_FRAME.search(line) for line in lines]
        known = self._locate(frame for frame in frames if frame is not None)
        return "\n".join(
            f"{line} ({known[frame[0]]})" if frame is not None and frame[0] in known else line
            for line, frame in zip(lines, frames, strict=True)
        )

    def _locate(self, frames: Iterable[re.Match[str]]) -> dict[str, str]:
        """Return source lines by the frames' text, without unknown frames.

        addr2line is called once for each section of each binary.
        """
        addresses: dict[tuple[Path, str], dict[str, int]] = defaultdict(dict)
        for frame in frames:
            path = self._binary(frame["module"])
            if path is None:
                continue
            key = (frame["symbol"], int(frame["length"], 16))
            section, start = self._table(path).get(key, ("", -1))
            if start >= 0:
                addresses[path, section][frame[0]] = start + int(frame["offset"], 16)
        located: dict[str, str] = {}
        for (path, section), places in addresses.items():
            located |= self._source_lines(path, section, places)
        return located

    def _binary(self, module: str | None) -> Path | None:
        """Return vmlinux for None, else the module's file in the tree; None if it has none."""
        if module is None:
            return self._vmlinux
        if not self._modules:
            self._modules = {module_name(path.name): path for path in self._tree.rglob("*.ko")}
        return self._modules.get(module)

    def _table(self, path: Path) -> Symbols:
        if path not in self._symbols:
            self._symbols[path] = _functions(path)
        return self._symbols[path]

    def _source_lines(self, path: Path, section: str, places: dict[str, int]) -> dict[str, str]:
        """Return source lines of the addresses in ``places`` by frame; none if addr2line fails."""
        assert self._program is not None
        command = [self._program, "-e", str(path), *(["-j", section] if section else [])]
        # A return address follows its call: the byte before belongs to the call.
        addresses = [hex(max(address - 1, 0)) for address in places.values()]
        result = subprocess.run(
            command, input="\n".join(addresses) + "\n", capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            return {}
        lines = result.stdout.splitlines()
        return {
            frame: _short(line)
            for frame, line in zip(places, lines, strict=False)
            if not line.startswith("??")
        }


def _functions(path: Path) -> Symbols:
    """Return the functions of a binary; raise :class:`LabError` if it cannot be read."""
    symbols: Symbols = {}
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            for table in elf.iter_sections():
                if isinstance(table, SymbolTableSection):
                    symbols |= _of_table(elf, table)
    except (ELFError, OSError, ValueError) as error:
        raise LabError(f"cannot read the symbols of {path}: {error}") from None
    return symbols


def _of_table(elf: ELFFile, table: SymbolTableSection) -> Symbols:
    """Return section and address of the functions in a symbol table, by name and length.

    Lengths are those of kallsyms: up to the next symbol or the section's end.
    """
    by_section: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for symbol in table.iter_symbols():
        index = symbol["st_shndx"]
        if isinstance(index, int) and symbol["st_info"]["type"] in ("STT_FUNC", "STT_NOTYPE"):
            by_section[index].append((symbol["st_value"], symbol.name))
    table_symbols: Symbols = {}
    for index, symbols in by_section.items():
        section = elf.get_section(index)
        if not section["sh_flags"] & _SHF_EXECINSTR:
            continue
        end = section["sh_addr"] + section["sh_size"]
        addresses = sorted({address for address, _ in symbols} | {end})
        following = dict(pairwise(addresses))
        # In a module every section begins at 0, so the name of the section is needed as well.
        where = section.name if elf["e_type"] == "ET_REL" else ""
        for address, name in symbols:
            table_symbols[name, following.get(address, address) - address] = where, address
    return table_symbols


def _short(line: str) -> str:
    """Return ``path:line`` without the discriminator, and without leading ``..`` components."""
    return re.sub(r"^(\.\./)+|^\./", "", line.partition(" (")[0])
