"""Registered memory: the range of a region's key, and its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from emu.driver.command.words import pack64
from emu.driver.verbs.endpoint import Endpoint
from emu.driver.verbs.segments import PAGE, Sge
from layouts.enums.cmd import Op
from layouts.enums.mkey import AccessMode

RIGHTS = {"lr": 1, "lw": 1, "rr": 1, "rw": 1, "a": 1}
READ_ONLY = {"rw": 0, "a": 0}
"""Rights without local write, which excludes remote changes as well (IBTA 10.6.3.1)."""


class Region:
    """Registered memory: scattered pages behind one key, at a virtual address of its own.

    ``key`` is lkey and rkey; ``at`` is always an offset in bytes from the region's start.
    """

    def __init__(
        self, node: Endpoint, size: int, va: int = 0x7F00_0000_0000, **context: Any
    ) -> None:
        """Register memory; ``context`` are fields of mkc, which has all rights by default."""
        self.node, self.size, self.va = node, size, va
        self.pages = node.memory.pages(size + va % PAGE)
        entries = pack64(self.pages)
        rights = RIGHTS | ({} if context.get("lw", 1) else READ_ONLY) | context
        fields = {
            "pd": node.pdn, "qpn": 0xFFFFFF, "access_mode_1_0": AccessMode.MTT, "len": size,
            "start_addr": va, "log_page_size": 12,
            "translations_octword_size": -(-len(self.pages) // 2),
        } | rights  # fmt: skip
        answer = node.driver.must(
            Op.CREATE_MKEY,
            memory_key_mkey_entry=fields,
            translations_octword_actual_size=-(-len(self.pages) // 2),
            extra=entries.ljust(-(-len(entries) // 16) * 16, b"\0"),
        )
        self.index: int = answer.mkey_index
        self.key = self.index << 8

    def _pieces(self, at: int, length: int) -> Iterator[tuple[int, int]]:
        """Yield (IOVA, bytes) of each page that the range touches."""
        at += self.va % PAGE
        while length:
            size = min(length, PAGE - at % PAGE)
            yield self.pages[at // PAGE] + at % PAGE, size
            at, length = at + size, length - size

    def read(self, at: int = 0, length: int | None = None) -> bytes:
        """Return bytes by the process's own access; to the end without a length."""
        length = self.size - at if length is None else length
        return b"".join(self.node.memory.read(*piece) for piece in self._pieces(at, length))

    def write(self, data: bytes, at: int = 0) -> None:
        """Write bytes at an offset, by the process's own access and without a check of rights."""
        done, rest = 0, memoryview(data)
        for iova, size in self._pieces(at, len(data)):
            self.node.memory.write(iova, rest[done : done + size])
            done += size

    def sge(self, at: int = 0, length: int | None = None) -> Sge:
        """Return a range of the region for a work request; to the end without a length."""
        return (self.size - at if length is None else length, self.key, self.va + at)
