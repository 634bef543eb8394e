"""Hairpin send queues (``emu.device.objects.eth.hairpin``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.objects.eth.hairpin import Peer, about
from emu.device.objects.eth.sq import AnySq

if TYPE_CHECKING:
    from emu.device.objects.eth.tir import Tis
    from layouts.objects.sq import sqc


class HairpinSq(AnySq):
    """A send queue for the packets of a hairpin receive queue."""

    __slots__ = ("peer",)

    def __init__(self, ctx: sqc, tis: Tis | None) -> None:
        super().__init__(ctx, None, tis)
        self.peer: Peer | None = None
        """The receive queue of the pair; None before the queue is in RDY."""

    def restart(self) -> None:
        """Unpair the queue, which went to RST."""
        self.peer = None

    def about(self) -> dict[str, object]:
        return about(self.peer)
