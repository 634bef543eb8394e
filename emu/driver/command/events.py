"""Event queues as mlx5_core keeps them (core/lib/eq.h)."""

from __future__ import annotations

from layouts.enums import EventType
from layouts.eqe import EQE_BYTES, eqe, eqe_cmd


class EventQueue:
    """The driver's side of an EQ."""

    def __init__(self, driver, eqn, addresses, log_size):
        self.driver = driver
        self.eqn = eqn
        self.addresses = addresses
        self.log_size = log_size
        self.ci = 0

    def next(self):
        """The next EQE, or None (core/lib/eq.h:next_eqe_sw)."""
        at = (self.ci & (1 << self.log_size) - 1) * EQE_BYTES
        entry = eqe.view(self.driver.memory.read(self.addresses[at // 4096] + at % 4096, EQE_BYTES))
        if entry.owner & 1 != self.ci >> self.log_size & 1:
            return None
        self.ci += 1
        return entry

    def drain(self):
        """All EQEs that wait; the device is told, and the queue armed again."""
        entries = []
        while entry := self.next():
            entries.append(entry)
        self.arm()
        return entries

    def arm(self):
        self._doorbell(0x40)

    def tell(self):
        """Consumer index without arming."""
        self._doorbell(0x48)

    def _doorbell(self, offset):
        value = self.eqn << 24 | self.ci & 0xFFFFFF
        self.driver.write32(self.driver.uar * 4096 + offset, value)
        self.driver.bar.settle()

    def finished_slots(self):
        """The command slots that the waiting CMD events name."""
        slots = 0
        for entry in self.drain():
            assert entry.type == EventType.CMD
            slots |= eqe_cmd.view(entry.data).vector
        return slots
