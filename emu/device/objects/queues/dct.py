"""DC targets (DCT), which receive from any initiator that knows number and access key.

A target has no connection of its own. The device creates a responder for an initiator when the
initiator first sends to the target (``emu.device.engine.rc.dynamic``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from emu.device.objects.domains import Pd, QCounter
from emu.device.objects.object import Object
from emu.device.objects.queues.cq import Cq
from emu.device.objects.queues.queue import QP_NUMBERS
from emu.device.objects.queues.srq import Srq

if TYPE_CHECKING:
    from layouts.objects.dct import dctc

DRAINED: Final = 2
"""dctc.state of a target that takes no more messages."""


class Responder(Protocol):
    """The responder for a DC initiator at its target (``emu.device.engine.rc.dynamic``)."""

    def leave(self) -> None:
        """Detach from the initiator, which then has no responder.

        Called when the initiator or the target stops, or the initiator addresses another target.
        """


class Dct(Object):
    """A DC target."""

    __slots__ = (
        "access_key", "counter", "cq", "cs_res", "ctx", "is_drained", "key_violations", "pd",
        "pkey_index", "responders", "srq", "uidx",
    )  # fmt: skip
    kind = "dct"
    numbering = QP_NUMBERS
    BASE_BYTES = 1024

    def __init__(self, ctx: dctc, pd: Pd, srq: Srq, cq: Cq, counter: QCounter | None) -> None:
        """Create a target; ``ctx`` is a view of dctc."""
        super().__init__()
        self.ctx = ctx
        self.pd = pd
        self.srq = srq
        self.cq = cq
        self.counter = counter
        self.access_key = int(ctx.dc_access_key)
        self.pkey_index = int(ctx.pkey_index)
        self.uidx: int | None = None
        """user_index for its completions; None: only the target's number."""
        self.cs_res = 0
        """Maximum bytes of a SEND in its completion, as for a queue pair."""
        self.is_drained = False
        """Whether the driver has drained the target before its destruction."""
        self.key_violations = 0
        """Number of messages with a wrong access key."""
        self.responders: dict[Responder, None] = {}
        """Responders of the target, the oldest first."""

    def encode(self) -> dctc:
        """Write the values that have changed since creation into the context, and return it."""
        self.ctx.state = DRAINED if self.is_drained else 0
        self.ctx.dc_access_key_violation_count = self.key_violations & 0xFFFFFFFF
        return self.ctx

    def holds(self) -> tuple[Object, ...]:
        references = (self.pd, self.srq, self.cq, self.counter)
        return tuple(part for part in references if part is not None)
