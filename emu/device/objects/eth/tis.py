"""Transport interfaces for sending (TIS).

Source: PRM "Transport interface send".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.objects.domains import TransportDomain
from emu.device.objects.numbering import Numbering
from emu.device.objects.object import Object
from emu.device.objects.queues.qp import Qp

if TYPE_CHECKING:
    from layouts.objects.tis import tisc


class Tis(Object):
    """Priority and transport domain of the send queues that name it."""

    __slots__ = ("affinity", "ctx", "is_strict", "prio", "td", "underlay")
    kind = "tis"
    numbering = Numbering(lambda made: 1 << made.caps.general.log_max_tis)
    BASE_BYTES = 1024

    def __init__(self, ctx: tisc, td: TransportDomain, underlay: Qp | None = None) -> None:
        super().__init__()
        self.ctx = ctx
        self.td = td
        self.underlay = underlay
        """The queue pair that its queues send as; None for frames."""
        self.decode()

    def decode(self) -> None:
        """Apply a changed context."""
        self.affinity = int(self.ctx.lag_tx_port_affinity)
        """The LAG port of its frames; 0 for the function's own."""
        self.is_strict = bool(self.ctx.strict_lag_tx_port_affinity)
        """Whether the LAG may not choose another port."""
        self.prio = int(self.ctx.prio)
        """Priority of its packets; mlx5e writes twice the traffic class."""

    def about(self) -> dict[str, object]:
        underlay = self.underlay.handle if self.underlay is not None else None
        return {"td": self.td.handle, "prio": self.prio, "underlay": underlay}

    def holds(self) -> tuple[Object, ...]:
        return (self.td,) if self.underlay is None else (self.td, self.underlay)
