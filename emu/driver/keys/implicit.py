"""Implicit key over the whole address space."""

from __future__ import annotations

from typing import Any

from emu.driver.keys.paging import PagedRegion, Pager
from emu.driver.keys.umr import MUST_NOT_BE_FREE, OFFSET, umr
from layouts.enums.cmd import Op
from layouts.enums.mkey import AccessMode
from layouts.rings.wqe import KLM


class ImplicitKey:
    """Implicit key over the whole address space (hw/odp.c: mlx5_ib_alloc_implicit_mr)."""

    CHILDREN = 8

    def __init__(self, pager: Pager, log_child: int = 14) -> None:
        """Create a key whose children are regions of ``1 << log_child`` bytes, without children."""
        self.pager, self.node, self.log_child = pager, pager.node, log_child
        self.null = self._null()
        self.entries: list[tuple[int, int, int]] = [
            (0, *self.absent(number)) for number in range(self.CHILDREN)
        ]
        rights = {"lr": 1, "lw": 1, "rr": 1, "rw": 1, "a": 1}
        fields: dict[str, Any] = {
            "pd": self.node.pdn, "qpn": 0xFFFFFF, "access_mode_1_0": AccessMode.KSM, "umr_en": 1,
            "length64": 1, "log_page_size": self.log_child,
            "translations_octword_size": self.CHILDREN,
        } | rights  # fmt: skip
        answer = self.node.driver.must(
            Op.CREATE_MKEY, memory_key_mkey_entry=fields, extra=self._xlt(),
            translations_octword_actual_size=self.CHILDREN,
        )  # fmt: skip
        self.index, self.key = answer.mkey_index, answer.mkey_index << 8

    def _null(self) -> int:
        """Return the null key, or in the memory scheme a new key without any page."""
        if not self.node.hca.caps.odp.mem_page_fault:
            return int(self.node.driver.must(Op.QUERY_SPECIAL_CONTEXTS).null_mkey)
        fields: dict[str, Any] = {
            "pd": self.node.pdn, "qpn": 0xFFFFFF, "access_mode_1_0": AccessMode.MTT, "length64": 1,
            "lr": 1, "lw": 1, "rr": 1, "rw": 1, "a": 1, "log_page_size": 61,
            "translations_octword_size": 4,
        }  # fmt: skip
        answer = self.node.driver.must(
            Op.CREATE_MKEY, memory_key_mkey_entry=fields, pg_access=1, extra=bytes(64),
            translations_octword_actual_size=4,
        )  # fmt: skip
        return int(answer.mkey_index) << 8

    def absent(self, number: int) -> tuple[int, int]:
        """Return key and address for an absent child."""
        is_memory = self.node.hca.caps.odp.mem_page_fault
        return self.null, number << self.log_child if is_memory else 0

    def _xlt(self) -> bytes:
        return b"".join(KLM.pack(*entry) for entry in self.entries)

    def put(self, number: int, key: int | None = None) -> None:
        """Set the key of a child in the parent by UMR, or remove the child with None.

        The call waits for the UMR. Raises DriverError if it fails.
        """
        va = number << self.log_child
        self.entries[number] = (0, *(self.absent(number) if key is None else (key, va)))
        block = number // 4 * 4
        xlt = b"".join(KLM.pack(*entry) for entry in self.entries[block : block + 4])
        umr(
            self.pager.updater, self.key, flags=MUST_NOT_BE_FREE | OFFSET, mask=0, xlt=xlt,
            offset=block,
        )  # fmt: skip
        self.pager.finish()

    def child(self, number: int) -> PagedRegion:
        """Create the memory of a child, without present pages; ``put`` must follow.

        The parent is unchanged until then.
        """
        size = 1 << self.log_child
        return PagedRegion(self.pager, size, va=number * size)
