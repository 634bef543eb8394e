"""The fault point of doorbells: the command doorbell, and those in UAR pages."""

from __future__ import annotations

from collections.abc import Callable

from emu.device.faults.delivery_actions import Delayable, Losable, Repeatable
from emu.device.faults.event import EventField, RuleInjector
from emu.device.faults.registry import point
from emu.device.function.bar0 import CMD_DBELL, DOORBELL_POINT
from emu.device.function.doorbells import (
    PAGE,
    UAR_CQ_ARM,
    UAR_CQ_ARM_CQN,
    UAR_SEND_NO_DBR,
    send_number,
)

_CQN = slice(-3, None)


@point(
    DOORBELL_POINT,
    "a doorbell is rung; `number` is the queue number, or for commands the mask of slots",
    EventField("kind", ("cmd", "send", "cq", "eq"), is_recorded=True), EventField("number", int),
)  # fmt: skip
class Doorbell(Losable[None], Delayable[None], Repeatable[None]):
    """A write to a doorbell register."""

    __slots__ = ("_ring", "kind", "number")

    def __init__(
        self, faults: RuleInjector, offset: int, data: bytes, ring: Callable[[], object]
    ) -> None:
        super().__init__(faults)
        self._ring = ring
        self.kind, self.number = _decoded(offset, data)

    def go_on(self) -> None:
        """Ring it."""
        self._ring()


def _decoded(offset: int, data: bytes) -> tuple[str, int]:
    """Return the kind of a doorbell (cmd, send, cq, eq) and the number in its data.

    The number is the queue's, or for cmd the bit mask of slots. ``offset`` is in BAR 0.
    """
    if offset == CMD_DBELL:
        return "cmd", int.from_bytes(data, "big")
    within = offset & PAGE - 1
    if within >= UAR_SEND_NO_DBR:
        return "send", send_number(within, data) or 0
    if within in (UAR_CQ_ARM, UAR_CQ_ARM_CQN):
        return "cq", int.from_bytes(data[_CQN], "big")
    return "eq", data[0] if data else 0
