"""How commands and doorbells number the UAR pages of BAR 0.

The driver sets log_uar_page_sz to the size of its own pages, because a process maps nothing smaller
(core/main.c: handle_hca_cap). ALLOC_UAR then allocates that many bytes. With ``uar_4k`` a number
counts 4 KiB, so one allocation has several UARs (core/uar.c: uar2pfn, map_offset; mlx5_ib.h:
get_uars_per_sys_page). Without ``uar_4k`` a number counts pages of the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from layouts.function.caps import cmd_hca_cap

LOG_UAR_BYTES: Final = 12
"""Log size of one UAR, in bytes (MLX5_ADAPTER_PAGE_SHIFT)."""


class UarPages:
    """The numbering of one function's UARs, from its current capabilities."""

    __slots__ = ("base_mask", "in_uar", "log_bytes", "per_page")

    def __init__(self, general: cmd_hca_cap) -> None:
        log_page = int(general.log_uar_page_sz)
        is_4k = bool(general.uar_4k)
        self.log_bytes = LOG_UAR_BYTES if is_4k else LOG_UAR_BYTES + log_page
        """Log distance of two UAR numbers in BAR 0, in bytes."""
        self.in_uar = (1 << self.log_bytes) - 1
        """Mask of an offset in BAR 0 that gives the offset from its UAR."""
        self.per_page = 1 << log_page if is_4k else 1
        """Number of UARs in one allocation (num_of_uars_per_page)."""
        self.base_mask = -self.per_page
        """Mask of a UAR number that gives the first one of its allocation."""
