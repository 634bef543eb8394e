"""The fault points of DMA: every access to guest memory, while a rule is about one of them."""

from __future__ import annotations

from typing import NoReturn

from emu.device.faults.event import Event, EventField, RuleInjector
from emu.device.faults.registry import action, mount, point
from emu.device.faults.rule import Rule
from emu.device.ports import DmaError
from emu.device.state.points import FaultPoint

READ_POINT: FaultPoint[[int, int], None] = FaultPoint("dma.read")
WRITE_POINT: FaultPoint[[int, int], None] = FaultPoint("dma.write")

_FIELDS = (EventField("address", int), EventField("length", int, is_recorded=True))


class _Access(Event[None]):
    __slots__ = ("address", "length")

    def __init__(self, faults: RuleInjector, address: int, length: int) -> None:
        super().__init__(faults)
        self.address = address
        self.length = length

    def go_on(self) -> None:
        """Do nothing: the access continues."""

    @action("the DMA access fails")
    def fail(self, rule: Rule) -> NoReturn:
        """Refuse the access. Raises DmaError."""
        raise DmaError(self.address, self.length, f"fault {rule.name}")


@point(READ_POINT, "the device reads guest memory", *_FIELDS)
class Read(_Access):
    """An access that only reads."""

    __slots__ = ()


@point(WRITE_POINT, "the device writes guest memory", *_FIELDS)
class Write(_Access):
    """An access that writes, or may write."""

    __slots__ = ()


@mount(READ_POINT, WRITE_POINT)
def watch_memory(faults: RuleInjector, *, requested: bool) -> None:
    """Show each access to guest memory to the rules if ``requested``, else to none.

    A rule that fails the access raises DmaError in the access.
    """

    def ask(iova: int, length: int, is_write: bool) -> None:
        faults.show(WRITE_POINT if is_write else READ_POINT, iova, length)

    faults.function.memory.watch(ask if requested else None)
