"""One PCI function, as the bus accesses it: configuration space, BAR 0 and BAR 2, and its polls."""

from __future__ import annotations

from typing import Final

from emu.device.engine import lifecycle
from emu.device.function.bar0 import CMD_DBELL, HEALTH_SYNDROME
from emu.device.function.msix import MSIX_PBA, MSIX_TABLE
from emu.device.function.resets import ResettableFunction
from emu.device.ports import Buffer
from emu.device.rounds.budget import CLIENT_BUDGET, POLL_BUDGET
from emu.device.state.hca import MSIX_VECTORS
from emu.device.state.points import FaultPoint
from emu.device.state.polls import POLLS
from layouts.enums.caps import PortType

MMIO_READ_POINT: Final[FaultPoint[[int, bytes], bytes]] = FaultPoint("mmio.read")
MMIO_WRITE_POINT: Final[FaultPoint[[int, Buffer], bool]] = FaultPoint("mmio.write")

_SUB_FUNCTIONS: Final = 2
"""The BAR of the sub-functions."""
_WORD_BYTES: Final = 4


class Function(ResettableFunction):
    """Implements :class:`emu.device.ports.PciFunction` for one model on the given ports."""

    @property
    def shares_port(self) -> bool:
        """Whether the function has only a vPort, behind the Ethernet port of a physical one."""
        return self.vhca.is_virtual and self.model.port_type is PortType.ETH

    @property
    def bar_sizes(self) -> tuple[int, int, int, int, int, int]:
        """Bytes of BAR 0, and of BAR 2 for sub-functions; both have 64-bit addresses."""
        return (self.model.bar0_size, 0, self._bar2_size, 0, 0, 0)

    @property
    def msix_vectors(self) -> int:
        """Size of the MSI-X table."""
        return MSIX_VECTORS

    def config_read(self, offset: int, length: int) -> bytes:
        """Return bytes of configuration space.

        All-ones while a fault rule has the function off the bus. An unexpected exception fails the
        function and also returns all-ones.
        """
        try:
            return b"\xff" * length if self._is_gone else self.config.read(offset, length)
        except Exception:
            self.hca.health.fail()
            return b"\xff" * length

    def config_write(self, offset: int, data: Buffer) -> None:
        """Write configuration space; Initiate FLR resets the function.

        Applies Memory Space Enable, Bus Master Enable and the power state at once. Ignored while a
        fault rule has the function off the bus. An unexpected exception fails the function.
        """
        try:
            if not self._is_gone:
                self.config.write(offset, bytes(data))
                self._follow_command_register()
                self.virtual_functions.follow(self.config)
        except Exception:
            self.hca.health.fail()

    @property
    def is_round_used(self) -> bool:
        """See :class:`emu.device.ports.PciFunction`."""
        return self.clock.budget.exhausted(CLIENT_BUDGET)

    def bar_read(self, bar: int, offset: int, length: int) -> bytes:
        """Return bytes of BAR 0 or 2; all-ones outside them and while Memory Space Enable is off.

        All-ones also while a fault rule has the function off the bus. BAR 2 belongs to the
        sub-functions. Fault rules that change reads see BAR 0 only. A bug in the emulator returns
        all-ones and stops the function, in BAR 2 the sub-function alone.
        """
        if bar or offset < 0 or offset + length > self._decoded:
            if bar == _SUB_FUNCTIONS and 0 <= offset <= self._decoded2 - length:
                return self._bar2_read(offset, length)
            return b"\xff" * length
        try:
            return self._bar0_read(offset, length)
        except Exception:
            self.hca.health.fail()
            return b"\xff" * length

    def bar_write(self, bar: int, offset: int, data: Buffer) -> None:
        """Write BAR 0 or 2; ignore writes outside them and while Memory Space Enable is off.

        Ignored also while the function is off the bus. Writes to BAR 2 go to the sub-functions.
        Fault rules that drop writes see BAR 0 only, and a failed function stores there only its
        MSI-X table. A bug in the emulator stops the function, in BAR 2 the sub-function alone.
        """
        # The table of vectors lies before, where UAR pages could be.
        if (
            offset < self._uars_end
            and offset >= MSIX_PBA
            and not bar
            and self._probes.faults is None
        ):
            try:
                self.bar0.doorbells.write(offset, data)  # nearly all stores
            except Exception:
                self.hca.health.fail()
            return
        if bar or offset < 0 or offset + len(data) > self._decoded:
            if bar == _SUB_FUNCTIONS and 0 <= offset <= self._decoded2 - len(data):
                self._bar2_write(offset, data)
            return
        try:
            if self.tracer:
                self.tracer.mmio("write", offset, data)
            faults = self._probes.faults
            if faults is not None and (
                self._is_gone or not faults.show(MMIO_WRITE_POINT, offset, data)
            ):
                return
            if offset >= MSIX_TABLE and offset < MSIX_PBA and self._msix.write(offset, data):
                return
            if not self.hca.health.has_failed:
                if offset == CMD_DBELL and faults is None and len(data) == _WORD_BYTES:
                    self.cmdif.doorbell(int.from_bytes(data, "big"))  # nearly all others
                else:
                    self.bar0.write(offset, data)
        except Exception:
            self.hca.health.fail()

    def _bar2_read(self, offset: int, length: int) -> bytes:
        if self.parts is None or self._is_gone:
            return b"\xff" * length
        return self.parts.read(offset, length)

    def _bar2_write(self, offset: int, data: Buffer) -> None:
        if self.parts is not None and not self._is_gone:
            self.parts.write(offset, data)

    def _bar0_read(self, offset: int, length: int) -> bytes:
        """Return bytes of BAR 0, as changed by fault rules, and show them to the tracer.

        All-ones while a rule has the function off the bus. After a failure, a read of the health
        syndrome shortens the time until the firmware restarts.
        """
        data = self._msix.read(offset, length) if offset >= MSIX_TABLE else None
        if data is None:
            data = self.bar0.read(offset, length)
        if self._probes.faults is not None:
            data = (
                b"\xff" * length
                if self._is_gone
                else self._probes.faults.show(MMIO_READ_POINT, offset, data)
            )
        if self.tracer:
            self.tracer.mmio("read", offset, data)
        if self.hca.health.has_failed and offset <= HEALTH_SYNDROME < offset + length:
            self._recovery.seen()
        return data

    def run(self) -> bool:
        """Begin a round, as a program without an event loop does, and :meth:`poll` in it."""
        self.hca.budget.begin()
        return self.poll()

    def poll(self) -> bool:
        """Do pending work of the HCA within the round's budget; return whether more is pending.

        Runs commands, sub-functions and queues, and frees objects from before a reset. A function
        that is off the bus, or has failed, only frees objects that others wait for. An unexpected
        exception fails the function.
        """
        hca = self.hca
        budget, scheduler = hca.budget, hca.scheduler
        scheduler.is_awake = False
        if not (
            scheduler.ready
            or self.cmdif.busy
            or self.deferred_free.is_left
            or scheduler.has_broken_cqs
            or (self.parts is not None and len(self.parts))
        ):
            return budget.is_waiting
        if hca.health.has_failed or (hca.probes.faults is not None and hca.probes.faults.is_gone):
            if self.deferred_free.work and not budget.exhausted(POLL_BUDGET):
                budget.charge(self.deferred_free.free_some())
            return budget.is_waiting or bool(self.deferred_free.work)
        try:
            more = False
            if self.cmdif.busy and budget.steps <= POLL_BUDGET:
                self.cmdif.run()
            if self.deferred_free.is_left and not budget.exhausted(POLL_BUDGET):
                budget.charge(self.deferred_free.free_some())
            if self.parts is not None and len(self.parts):
                more = self.parts.run()
            if scheduler.has_broken_cqs:
                more = lifecycle.run(hca) or more
            elif scheduler.ready and scheduler.poll(hca, budget, POLLS):
                more = True
            return more or self.cmdif.busy or self.deferred_free.is_left or budget.is_waiting
        except Exception:
            hca.health.fail()
            return False
