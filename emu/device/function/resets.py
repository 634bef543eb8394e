"""The HCA of a function through its lives: power-on, resets, failures and the restart after one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from emu.device.adapter.adapter import Adapter, Vhca
from emu.device.adapter.board import Board
from emu.device.cmdif.icmd import ToolCommands
from emu.device.cmdif.interface import CommandInterface
from emu.device.cmdif.registry import Command
from emu.device.engine import lifecycle
from emu.device.function.bar0 import Bar0
from emu.device.function.boot_nic import BootNic
from emu.device.function.crspace import CrSpace
from emu.device.function.msix import MSIX_PBA, MSIX_TABLE, MsixStructures
from emu.device.function.sub_functions import SubFunctionSlots, bar2_size
from emu.device.function.tracer import ContainedTracer, Tracer
from emu.device.function.virtual_functions import VirtualFunctions, sriov_layout
from emu.device.function.wiring import own_vhca, wire_of
from emu.device.objects.deferred_free import DeferredFree
from emu.device.pci import ConfigSpace
from emu.device.port.eth.wire import EthWire
from emu.device.port.ib.wire import IbWire
from emu.device.ports import Clock, GuestMemory, Interrupts
from emu.device.rounds.costs import STEPS_PER_RESTART
from emu.device.state.containment import Recovery
from emu.device.state.hca import MSIX_VECTORS, Hca, HcaOptions, HcaState
from emu.device.state.parts.unhandled import Unhandled
from emu.device.state.points import FaultInjector

if TYPE_CHECKING:
    from emu.device.models import Model

log = logging.getLogger(__name__)


class ResettableFunction:
    """Configuration space, and the HCA with its BAR 0, which each reset replaces."""

    def __init__(
        self,
        model: Model,
        options: HcaOptions,
        commands: Mapping[int, Command],
        memory: GuestMemory,
        interrupts: Interrupts,
        clock: Clock,
        wire: IbWire[Hca] | None,
        tracer: Tracer | None = None,
        eth_wire: EthWire[Hca] | None = None,
        vhca: Vhca[Hca] | None = None,
        board: Board[Hca] | None = None,
        pf: ResettableFunction | None = None,
    ) -> None:
        """Create the function; only an Ethernet function may have no ``wire``.

        ``vhca`` is its identity in an adapter; without one the function gets an adapter of its own,
        as the next port of ``board`` if that is given. ``eth_wire`` is the wire of that adapter's
        Ethernet port. With ``pf`` the function is the next virtual function of that adapter, which
        the SR-IOV capability of ``pf`` enables.
        """
        self.model = model
        self.virtual_functions = VirtualFunctions()
        """Virtual functions that the SR-IOV capability of a physical function enables."""
        if pf is not None:
            vhca = pf.adapter.add(len(pf.virtual_functions) + 1)
        if vhca is None:
            vhca = own_vhca(model, options.guid, eth_wire, board)
        self.vhca = vhca
        self.adapter: Adapter[Hca] = vhca.adapter
        self.tracer = contained = ContainedTracer(tracer) if tracer is not None else None
        self.memory = memory
        memory.forget_views = self.forget_views
        self.interrupts = interrupts
        self.clock = clock
        self.wire: IbWire[Hca] = wire_of(model.port_type, vhca, wire)
        """Carries transport packets; for an Ethernet function, in frames."""
        self._injector: FaultInjector | None = None
        self.unhandled = Unhandled()
        self.deferred_free = DeferredFree()
        """Objects from before a reset, still to be freed."""
        self.restarts = 0
        self._commands = commands
        self._make_hca = partial(
            Hca, model, options, memory, interrupts, clock, self.wire, vhca,
            contained, self.unhandled, self._on_failure, self.deferred_free,
        )  # fmt: skip
        self._bar2_size = bar2_size(model)
        self._recovery = Recovery(clock, self._start_anew)
        self.config = ConfigSpace(
            model.identity.with_guid(self.adapter.guid),
            bar0_size=model.bar0_size,
            bar2_size=self._bar2_size,
            msix_vectors=MSIX_VECTORS,
            msix_table_offset=MSIX_TABLE,
            msix_pba_offset=MSIX_PBA,
            on_flr=self._on_flr,
            crspace=CrSpace(lambda offset, length: self.bar0.read(offset, length), model.hw_id),
            icmd=ToolCommands(commands, lambda: self.hca),
            boot_nic=BootNic(lambda: self.hca, lambda: self.bar0) if vhca.is_manager else None,
            sriov=sriov_layout(model),
            is_sriov_vf=pf is not None,
        )
        self._is_sriov_vf = pf is not None
        self._has_vf_memory = False
        """Whether the SR-IOV capability of the physical function decodes the BAR."""
        self._decoded = self._decoded2 = 0
        """Decoded bytes of BAR 0 and BAR 2; 0 while Memory Space Enable is off."""
        self._uars_end = 0
        """End of the UAR pages in BAR 0; 0 while their doorbells are not decoded, or traced."""
        self._mastering: bool | None = None
        self._commands_before = 0
        self._on_work: Callable[[], None] = lambda: None
        self._power_on("start")
        if vhca.is_virtual:
            vhca.restart = self._on_disable
        if pf is not None:
            pf.virtual_functions.add(self)

    def use_faults(self, injector: FaultInjector) -> None:
        """Enable fault injection by ``injector``, for this HCA and those after each reset."""
        self._injector = injector
        injector.attach()

    @property
    def _is_gone(self) -> bool:
        """Whether a fault rule has removed the function from the bus."""
        faults = self._probes.faults
        return faults is not None and faults.is_gone

    @property
    def commands(self) -> int:
        """Number of commands run since the function was created, across all resets."""
        return self._commands_before + self.cmdif.executed

    def _power_on(self, cause: str) -> None:
        """Create a new HCA, its command interface, BAR 0, sub-functions and MSI-X table.

        Clears pending interrupts and reports ``cause``, as :meth:`restart`, to the fault
        injector. The former HCA must already be stopped.
        """
        if self.tracer:
            self.tracer.power_on(self.model.name, self.model.uar_end)
        self.hca = self._make_hca()
        self._probes = self.hca.probes
        self.hca.scheduler.on_work = self._on_work
        self.cmdif = CommandInterface(self.hca, self._commands, self.tracer)
        self.bar0 = Bar0(self.hca, self.cmdif)
        self.parts: SubFunctionSlots | None = None
        """Sub-functions of the function; None if its model has none."""
        if self._bar2_size:
            self.parts = SubFunctionSlots(self.hca, self._commands, self.deferred_free)
            self.hca.sub_functions = self.parts.all
        self._msix = MsixStructures(self.interrupts)
        self.interrupts.clear_pending()
        self._follow_command_register()
        if self._injector is not None:
            self._injector.power_on(cause)

    @property
    def on_work(self) -> Callable[[], None]:
        """See :class:`emu.device.ports.PciFunction`."""
        return self._on_work

    @on_work.setter
    def on_work(self, call: Callable[[], None]) -> None:
        self._on_work = self.hca.scheduler.on_work = call

    def _follow_command_register(self) -> None:
        """Decode the BARs and master the bus if the driver allows it (PCIe 5.0, 7.5.1.1.3).

        While it does not, the decoded size is 0, all DMA raises DmaError, and interrupts are
        latched. Individual accesses therefore need no check.
        """
        config = self.config
        has_memory, mastering = config.memory_enabled, config.bus_master_enabled
        if self._is_sriov_vf:
            has_memory = self._has_vf_memory and config.in_d0
            mastering = mastering and self.vhca.vf_enabled
        self._decoded = self.model.bar0_size if has_memory else 0
        is_heard = has_memory and self.tracer is None and not self.hca.health.has_failed
        self._uars_end = self.bar0.memic_first if is_heard else 0
        self._decoded2 = self._bar2_size if has_memory else 0
        if mastering != self._mastering:
            self._mastering = mastering
            self.memory.permit(mastering)
            self.interrupts.permit(mastering)

    def forget_views(self) -> None:
        """Drop all views of guest memory, sub-functions' too, when the client changes the map."""
        self.hca.view_cache.forget()
        if self.parts is not None:
            self.parts.forget_views()

    def reset(self) -> None:
        """Return to the power-on state: a new HCA, and configuration space with its defaults.

        Sticky bits are reset too, unlike with a function-level reset. All objects and commands are
        dropped. An unexpected exception fails the function.
        """
        log.info("%s: reset", self.model.name)
        try:
            self.config.reset()
            self.restart("reset")
            self.virtual_functions.follow(self.config)
        except Exception:
            self.hca.health.fail()

    def show_on_bus(self, is_enabled: bool, has_memory: bool) -> None:
        """Follow the SR-IOV capability that enables this virtual function, and decodes its BAR.

        A function that leaves the bus is reset. An unexpected exception fails it.
        """
        vhca, has_memory = self.vhca, is_enabled and has_memory
        if (is_enabled, has_memory) == (vhca.vf_enabled, self._has_vf_memory):
            return
        leaves = vhca.vf_enabled and not is_enabled
        vhca.vf_enabled, self._has_vf_memory = is_enabled, has_memory
        try:
            if leaves:
                log.info("%s: virtual function disabled", self.model.name)
                self.config.reset()
                self.restart("vf_disable")
            else:
                self._follow_command_register()
        except Exception:
            self.hca.health.fail()

    def _on_disable(self) -> None:
        """Restart a virtual function that DISABLE_HCA of its manager, or the manager's end, stops.

        An unexpected exception fails the function.
        """
        log.info("%s: disabled by the physical function", self.model.name)
        try:
            self.restart("vf_disable")
        except Exception:
            self.hca.health.fail()

    def _on_flr(self) -> None:
        """Restart after configuration space has reset itself, except for its sticky bits."""
        log.info("%s: function-level reset", self.model.name)
        self.restart("flr")

    def restart(self, cause: str) -> None:
        """Stop the HCA, drop its objects and commands, and start with a new HCA.

        Configuration space stays unchanged, and ``commands`` continues its count. A pending restart
        after a failure is cancelled. ``cause`` is start, reset, flr, vf_disable, bus or
        firmware.
        """
        self.clock.budget.charge(STEPS_PER_RESTART)
        if not self.hca.health.has_failed:
            lifecycle.quiesce(self.hca)
            self.cmdif.forget()
        if self.hca.state is not HcaState.DISABLED or self.hca.health.has_failed:
            self.hca.drop_objects()
        self.restarts += 1
        self._recovery.end()
        self._commands_before = self.commands
        self._power_on(cause)

    def _on_failure(self) -> None:
        """Stop the HCA, take its link down, and report a firmware assert in the health buffer.

        The driver finds the assert and recovers; peers of this function get no response. A timer
        then restarts the function, sooner once the driver has read the health buffer.
        """
        hca = self.hca
        self._uars_end = 0
        try:
            lifecycle.quiesce(hca)
            self.cmdif.forget()
            lifecycle.take_down(hca)
        except Exception:
            log.exception("%s: internal error while stopping", self.model.name)
        self.bar0.report_fatal()
        self._recovery.begin()

    def _start_anew(self) -> None:
        """Restart the function after a failure, as the firmware does; only log an exception."""
        log.info("%s: the firmware restarts", self.model.name)
        try:
            self.restart("firmware")
        except Exception:
            log.exception("%s: internal error while restarting", self.model.name)
