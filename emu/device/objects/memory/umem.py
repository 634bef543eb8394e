"""User memory that commands refer to by number (DEVX)."""

from __future__ import annotations

from emu.device.objects.memory.pages import PageList
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object


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
