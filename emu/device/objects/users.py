"""Objects of processes that send their own commands (DEVX)."""

from __future__ import annotations

from emu.device.objects.numbering import Numbering
from emu.device.objects.pages import PageList
from emu.device.objects.table import Object


class Uctx(Object):
    """A user context: a process that sends its own commands. The handle is its uid."""

    __slots__ = ("cap",)
    kind = "user context"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_uctx)

    def __init__(self, cap: int = 0) -> None:
        """``cap``: what the process may do besides, bits of uctx_cap."""
        super().__init__()
        self.cap = cap


class Umem(Object):
    """User memory that commands refer to by its number instead of listing its pages."""

    __slots__ = ("is_writable", "memory")
    kind = "umem"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_umem)
    BASE_BYTES = 512

    def __init__(self, memory: PageList, *, is_writable: bool) -> None:
        super().__init__()
        self.memory = memory
        self.is_writable = is_writable

    @property
    def host_bytes(self) -> int:
        return self.BASE_BYTES + self.memory.host_bytes
