"""Event queues, used as mlx5_core does (core/eq.c, core/lib/eq.h)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from emu.device.ports import Interrupts
from emu.driver.command.answer import expect
from emu.driver.command.bar import Bar
from emu.driver.command.commands import Commands
from emu.driver.command.words import pack64, unpack64
from emu.driver.world.memory import Memory
from layouts.enums.cmd import Op
from layouts.enums.eqe import EventType
from layouts.rings.eqe import EQE_BYTES, eqe, eqe_cmd

_ARM, _UPDATE = 0x40, 0x48
"""Offsets of the doorbells in the UAR page."""


class EventQueues(Commands):
    """A driver's event queues, by their numbers in ``eqs``."""

    uar: int
    """Number of the UAR whose doorbells the driver uses; a probe allocates its page."""
    uar_bytes: int
    """Distance of two UAR numbers in BAR 0, in bytes."""

    def __init__(self, bar: Bar, memory: Memory, irqs: Interrupts | None = None) -> None:
        super().__init__(bar, memory, irqs)
        self.eqs: dict[int, EventQueue] = {}

    def eq_fields(
        self, *, log_size: int = 4, events: Iterable[int] = (), vector: int = 0
    ) -> dict[str, Any]:
        """Return the input of CREATE_EQ, with a buffer whose entries the device owns.

        ``events`` are types below 64. The buffer is allocated, no command is sent.
        """
        pages = self.memory.pages(EQE_BYTES << log_size)
        for page in pages:
            self.memory.write(page, (bytes(63) + b"\x01") * 64)
        mask = sum(1 << event for event in events)
        return {
            "eq_context_entry": {"log_eq_size": log_size, "uar_page": self.uar, "intr": vector},
            "event_bitmask": [mask & (1 << 64) - 1, 0, 0, 0],
            "extra": pack64(pages),
        }

    def create_eq(self, *, log_size: int = 4, events: Iterable[int] = (), vector: int = 0) -> int:
        """Create an EQ of ``1 << log_size`` entries for these event types; return its number.

        ``eqs`` then has its EventQueue, which is not armed. Raises DriverCommandError if refused.
        """
        fields = self.eq_fields(log_size=log_size, events=events, vector=vector)
        eqn: int = self.must(Op.CREATE_EQ, **fields).eq_number
        self.eqs[eqn] = EventQueue(self, eqn, unpack64(fields["extra"]), log_size)
        return eqn

    def destroy_eq(self, eqn: int) -> None:
        """Run DESTROY_EQ."""
        self.must(Op.DESTROY_EQ, eq_number=eqn)
        del self.eqs[eqn]

    def use_events(self, vector: int = 0) -> EventQueue:
        """Create and arm an EQ for CMD events (mlx5_cmd_use_events); return it.

        Commands are still polled. Raises DriverCommandError if refused.
        """
        eqn = self.create_eq(events=[EventType.CMD], vector=vector)
        self.eqs[eqn].arm()
        return self.eqs[eqn]


class EventQueue:
    """Driver's side of an EQ, whose buffer consists of pages at ``addresses``."""

    def __init__(
        self, driver: EventQueues, eqn: int, addresses: Sequence[int], log_size: int
    ) -> None:
        self.driver = driver
        self.eqn = eqn
        self.addresses = addresses
        self.log_size = log_size
        self.ci = 0

    def next(self) -> eqe | None:
        """Return the next EQE as a view, or None while the device owns it (next_eqe_sw).

        The consumer index in the driver advances; no doorbell is written.
        """
        at = (self.ci & (1 << self.log_size) - 1) * EQE_BYTES
        entry = eqe.view(self.driver.memory.read(self.addresses[at // 4096] + at % 4096, EQE_BYTES))
        if entry.owner & 1 != self.ci >> self.log_size & 1:
            return None
        self.ci += 1
        return entry

    def drain(self) -> list[eqe]:
        """Return all pending EQEs; update the consumer index and arm the queue.

        The queue is armed even if there was none.
        """
        entries = []
        while entry := self.next():
            entries.append(entry)
        self.arm()
        return entries

    def arm(self) -> None:
        """Write the consumer index and request an interrupt."""
        self._doorbell(_ARM)

    def update_ci(self) -> None:
        """Write the consumer index without arming."""
        self._doorbell(_UPDATE)

    def _doorbell(self, offset: int) -> None:
        value = self.eqn << 24 | self.ci & 0xFFFFFF
        self.driver.write32(self.driver.uar * self.driver.uar_bytes + offset, value)
        self.driver.bar.settle()

    def finished_slots(self) -> int:
        """Return the command slots, a bit each, that the pending CMD events name.

        Raises DriverError if an event is of another type. The events are consumed and the queue is
        armed. Return 0 for no event.
        """
        slots = 0
        for entry in self.drain():
            expect(entry.type == EventType.CMD, f"event {entry.type} on a command EQ")
            slots |= eqe_cmd.view(entry.data).vector
        return slots
