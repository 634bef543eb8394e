"""The sub-functions of a physical function: slots of its BAR 2, each with an HCA of its own.

All share the physical function's memory, MSI-X vectors (by number), clock, and host memory limit. A
reset or failure of the physical function ends them. Only the physical function has faults, traces
and recovery from a failure.

Source: PRM "Sub-Function (SF)"; core/sf/dev/dev.c: mlx5_sf_dev_add, core/sf/dev/driver.c.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from emu.device.cmdif.interface import CommandInterface
from emu.device.cmdif.registry import Command
from emu.device.engine import lifecycle
from emu.device.engine.eth.roce_wire import RoceWire
from emu.device.function.bar0 import Bar0
from emu.device.models.sub_functions import sub_function_of
from emu.device.ports import Buffer
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.state.hca import Hca
from emu.device.state.sub_functions import SubFunction, SubFunctions

if TYPE_CHECKING:
    from emu.device.models import Model
    from emu.device.objects.deferred_free import DeferredFree

log = logging.getLogger(__name__)

_GUIDS_APART: Final = 1 << 16


def bar2_size(model: Model) -> int:
    """Return the size of BAR 2 in bytes: one slot for each sub-function; 0 without any."""
    max_num_sf = int(model.general.get("max_num_sf", 0))
    return sub_function_of(model).bar0_size << (max_num_sf - 1).bit_length() if max_num_sf else 0


class _SlotDevice:
    """The device behind one slot of BAR 2."""

    def __init__(self, hca: Hca, commands: Mapping[int, Command]) -> None:
        self.hca = hca
        self.cmdif = CommandInterface(hca, commands)
        self.bar = Bar0(hca, self.cmdif)

    def on_failure(self) -> None:
        """Stop the sub-function, take its link down, and report a firmware assert.

        The sub-function does not restart by itself; the physical function continues.
        """
        lifecycle.quiesce(self.hca)
        self.cmdif.forget()
        lifecycle.take_down(self.hca)
        self.bar.report_fatal()

    def end(self) -> None:
        """Stop the sub-function, unless it has failed, and drop its driver's objects."""
        if not self.hca.health.has_failed:
            lifecycle.quiesce(self.hca)
            self.cmdif.forget()
        self.hca.drop_objects()

    def run(self) -> bool:
        """Do pending work within the budget; return whether more is pending.

        False once the sub-function has failed. An unexpected exception fails it.
        """
        hca = self.hca
        hca.scheduler.is_awake = False
        if hca.health.has_failed:
            return False
        try:
            if self.cmdif.busy and not hca.budget.exhausted(POLL_BUDGET):
                self.cmdif.run()
            return lifecycle.run(hca) or self.cmdif.busy
        except Exception:
            hca.health.fail()
            return False


class SubFunctionSlots:
    """The slots of BAR 2 of one physical function, from one of its resets to the next."""

    def __init__(
        self, manager: Hca, commands: Mapping[int, Command], deferred_free: DeferredFree
    ) -> None:
        self._manager = manager
        self._commands = commands
        self._deferred_free = deferred_free
        self._model = sub_function_of(manager.model)
        general = manager.model.general
        self._first = int(general["sf_base_id"])
        self._devices: dict[int, _SlotDevice] = {}
        """Devices by vPort number, in the poll order of the next round."""
        max_num_sf = int(general["max_num_sf"])
        self.all = SubFunctions(self._first, max_num_sf, self._start, self._stop)

    def __len__(self) -> int:
        return len(self._devices)

    def _start(self, one: SubFunction[Hca]) -> Hca:
        """Create the HCA of a sub-function, and return it.

        Adds the sub-function to the adapter, which raises ValueError for a number in use and for
        too many functions. GUIDs follow from the physical function's.
        """
        manager, number = self._manager, one.number
        vhca = manager.adapter.add(number)
        apart = (number - self._first + 1) * _GUIDS_APART
        options = replace(manager.options, guid=manager.options.guid + apart, mac=0)
        made: list[_SlotDevice] = []
        hca = Hca(
            self._model, options, manager.memory, manager.events.interrupts,
            manager.port_clock.bare, RoceWire(manager.switch.segment_of(vhca)), vhca,
            on_failure=lambda: made[0].on_failure(), deferred_free=self._deferred_free,
            host=manager.ledger,
        )  # fmt: skip
        hca.scheduler.on_work = manager.scheduler.wake
        made.append(_SlotDevice(hca, self._commands))
        self._devices[number] = made[0]
        hca.sub_function = one
        return hca

    def _stop(self, hca: Hca) -> None:
        number = hca.vhca.vport_number
        self._devices.pop(number).end()
        self._manager.adapter.remove(hca.vhca)

    def _at(self, offset: int, length: int) -> tuple[_SlotDevice, int] | None:
        """Return the device behind an offset of BAR 2, and the offset in its slot.

        None where no sub-function exists, and for an access across the end of a slot.
        """
        at, within = divmod(offset, self._model.bar0_size)
        device = self._devices.get(self._first + at)
        if device is None or within + length > self._model.bar0_size:
            return None
        return device, within

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of BAR 2; all-ones where no sub-function exists.

        A sub-function that its driver has just left stays readable. The driver's health poll
        continues until after DISABLE_HCA, and takes all-ones for a fatal error (core/main.c:
        mlx5_function_disable, core/health.c: sensor_pci_not_working). An unexpected exception fails
        the sub-function.
        """
        part = self._at(offset, length)
        if part is None:
            return b"\xff" * length
        device, within = part
        try:
            return device.bar.read(within, length)
        except Exception:
            device.hca.health.fail()
            return b"\xff" * length

    def write(self, offset: int, data: Buffer) -> None:
        """Write BAR 2; ignore writes where no sub-function is enabled, or after its failure.

        An unexpected exception fails the sub-function.
        """
        part = self._at(offset, len(data))
        if part is None:
            return
        device, within = part
        one = device.hca.sub_function
        if device.hca.health.has_failed or one is None or not one.is_there:
            return
        try:
            device.bar.write(within, data)
        except Exception:
            device.hca.health.fail()

    def run(self) -> bool:
        """Poll the sub-functions within the budget; return whether more work is pending.

        True also when the budget ends early; the next round then begins with those not yet polled.
        """
        more = False
        for number, device in [*self._devices.items()]:
            if self._devices.get(number) is not device:
                continue
            if self._manager.budget.exhausted(POLL_BUDGET):
                # The sub-functions not yet polled are first in the next round.
                rest = [*self._devices]
                first = rest.index(number)
                for late in rest[:first]:
                    self._devices[late] = self._devices.pop(late)
                return True
            more |= device.run()
        return more

    def forget_views(self) -> None:
        """Drop all views of guest memory of the sub-functions."""
        for device in self._devices.values():
            device.hca.view_cache.forget()
