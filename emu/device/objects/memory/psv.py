"""Protection signature values."""

from __future__ import annotations

from emu.device.objects.domains import Pd
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object


class Psv(Object):
    """A protection signature value: the initial value of a signature, set by SET_PSV."""

    __slots__ = ("pd", "transient_sig")
    kind = "psv"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_mkey)

    def __init__(self, pd: Pd) -> None:
        super().__init__()
        self.pd = pd
        self.transient_sig = 0
        """64 bits: guard and tags, or the seed of a CRC in the upper bits."""

    def holds(self) -> tuple[Object, ...]:
        return (self.pd,)
