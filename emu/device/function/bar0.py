"""BAR 0: the initialization segment, the MSI-X structures, the UAR pages and device memory.

Source: PRM "Initialization segment" and "UAR page format"; device.h (``mlx5_init_seg``), core/uar.c
and include/linux/mlx5/doorbell.h of Linux 6.12. Unused offsets inside the BAR read as zero; a write
there appears in the trace and changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.cmdif.interface import LOG_SLOTS, LOG_STRIDE, CommandInterface
from emu.device.engine import lifecycle
from emu.device.function.doorbells import PAGE, Doorbells, is_doorbell
from emu.device.objects.memory.memic import AREA_BYTES
from emu.device.ports import Buffer
from emu.device.state.points import FaultPoint, FaultPoints
from layouts.enums.hca import HealthSyndrome, NicInterface
from layouts.function.iseg import init_seg

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

log = logging.getLogger(__name__)

DOORBELL_POINT: Final[FaultPoint[[int, bytes, Callable[[], object]], None]] = FaultPoint("doorbell")
"""Offset in BAR 0, the data written there, and the call that rings the doorbell."""

CMD_INTERFACE_REV: Final = 5
HEALTH_TICK_NS: Final = 10_000_000
"""Period of the health counter: 10 ms; the driver polls it every 2 s (core/health.c)."""

CMDQ_ADDR_H: Final = 0x010
CMDQ_ADDR_L: Final = 0x014
CMD_DBELL: Final = 0x018
INITIALIZING: Final = 0x1FC
INTERNAL_TIMER_H: Final = 0x1000
CLOCKS_END: Final = 0x1048
"""End of the real-time clock, the last of the registers that change by themselves."""
HEALTH_SYNDROME: Final = 0x23D
NODNIC_AT: Final = 0x1200
"""Address of a NIC without DRAM in the gateway's space of it; a reserved part of the segment."""
FIRST_UAR: Final = 2 * PAGE
_INTERFACES: Final = sum(
    1 << interface
    for interface in (NicInterface.FULL_DRIVER, NicInterface.DISABLED, NicInterface.NO_DRAM_NIC)
)
_CRITICAL: Final = 2
"""Severities are those of syslog (core/health.c: mlx5_health_get_severity)."""


class Bar0:
    """The registers and doorbells in BAR 0."""

    def __init__(self, hca: Hca, cmdif: CommandInterface) -> None:
        self._hca = hca
        self._probes = hca.probes
        self._cmdif = cmdif
        self.doorbells = Doorbells(hca, self._is_disabled)
        self.memic_first = hca.model.bar0_size - AREA_BYTES
        """Where the UAR pages end, and device memory begins if there is any."""
        self._seg = init_seg.new(
            cmdif_rev_fw_sub={
                "cmd_interface_rev": CMD_INTERFACE_REV,
                "fw_rev_subminor": hca.model.fw_subminor,
            },
            fw_rev={"fw_rev_minor": hca.model.fw_minor, "fw_rev_major": hca.model.fw_major},
            # Disabled until a driver sets the address of its command queue. A driver that was
            # running when the function was reset detects this at its next health poll, and
            # recovers.
            cmdq_addr_l_sz={
                "nic_interface": NicInterface.DISABLED,
                "log_cmdq_size": LOG_SLOTS,
                "log_cmdq_stride": LOG_STRIDE,
            },
        )
        self._seg.health.fw_ver = int.from_bytes(self._seg.buf[0:4], "big")
        self._seg.health.hw_id = hca.model.hw_id
        if hca.nodnic is not None:
            self._seg.no_dram_nic_offset = NODNIC_AT
            self._seg.initializing.nic_interface_supported = _INTERFACES
        self.is_stalled = False
        """Whether the health counter is stopped."""

    @property
    def segment(self) -> init_seg:
        """The initialization segment, as a writable view."""
        return self._seg

    def _is_disabled(self) -> bool:
        return bool(self._seg.cmdq_addr_l_sz.nic_interface != NicInterface.FULL_DRIVER)

    def report_fatal(self) -> None:
        """Write a firmware assert (FW_INTERNAL_ERR) and a reset request into the health buffer.

        The driver finds both at its next poll; no event is sent, and the function is not stopped
        here.
        """
        self._seg.health.synd = HealthSyndrome.FW_INTERNAL_ERR
        self._seg.health.rfr_severity = {"rfr": 1, "valid": 1, "severity": _CRITICAL}

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the initialization segment or of device memory; zeros elsewhere.

        UAR pages read as zero. A read that includes timers or the health counter updates them
        first.
        """
        if offset >= self.memic_first and self._hca.memic is not None:
            return self._hca.memic.read(offset, length)
        if offset < CLOCKS_END and offset + length > INTERNAL_TIMER_H:
            self._tick()
        if offset <= INITIALIZING < offset + length:
            self._seg.initializing.initializing = int(self._is_initializing)
        data = bytes(self._seg.buf[offset : offset + length])
        return data.ljust(length, b"\0")

    @property
    def _is_initializing(self) -> bool:
        """Whether a virtual function is not enabled by its manager, or lacks firmware pages.

        Drivers wait for the end of it (core/main.c: wait_fw_init).
        """
        return not self._hca.vhca.may_begin or self._hca.given_pages.is_waiting

    def _tick(self) -> None:
        """Update the timers, and the health counter unless stalled, for one point in time."""
        timer, now = self._hca.cqes.ticks, self._hca.clock.now_ns()
        ticks, stamp = timer.read(), timer.real_time.stamp(now)
        self._seg.internal_timer_h = ticks >> 32 & 0xFFFFFFFF
        self._seg.internal_timer_l = ticks & 0xFFFFFFFF
        self._seg.real_time_h = stamp >> 32 & 0xFFFFFFFF
        self._seg.real_time_l = stamp & 0xFFFFFFFF
        # Never zero and never all-ones: the driver treats either as a dead device.
        if not self.is_stalled:
            self._seg.health_counter = now // HEALTH_TICK_NS % 0xFFFFFFFE + 1

    def write(self, offset: int, data: Buffer) -> None:
        """Process a write to a register, a doorbell or device memory.

        Doorbells only schedule work. While fault rules are loaded, they see each doorbell first.
        The segment's only writable registers are the address and doorbell of the command queue, in
        stores of 4 bytes; other writes are ignored and logged.
        """
        if offset == CMD_DBELL and len(data) == 4:
            if self._probes.faults is None:
                self._cmdif.doorbell(int.from_bytes(data, "big"))
            else:
                ring = partial(self._cmdif.doorbell, int.from_bytes(data, "big"))
                self._probes.faults.show(DOORBELL_POINT, offset, bytes(data), ring)
        elif offset >= self.memic_first and self._hca.memic is not None:
            self._hca.memic.write(offset, data)
        elif offset >= FIRST_UAR:
            if self._probes.faults is None:
                self.doorbells.write(offset, data)
            else:
                self._uar_write(self._probes.faults, offset, data)
        elif len(data) == 4 and offset in (CMDQ_ADDR_H, CMDQ_ADDR_L):
            self._seg_write(offset, int.from_bytes(data, "big"))
        else:
            log.debug("write of %d bytes at %#x ignored: read-only", len(data), offset)

    def _uar_write(self, faults: FaultPoints, offset: int, data: Buffer) -> None:
        """Process a store to a UAR page while fault rules are loaded.

        A doorbell is shown at DOORBELL_POINT, where a rule may drop or delay it; other stores are
        not.
        """
        if not is_doorbell(offset % PAGE, data):
            self.doorbells.write(offset, data)
            return
        stored = bytes(data)
        ring = partial(self.doorbells.write, offset, stored)
        faults.show(DOORBELL_POINT, offset, stored, ring)

    def _seg_write(self, offset: int, value: int) -> None:
        """Write a word of the command queue's address.

        ``nic_interface`` DISABLED in the lower word shuts the HCA down and drops all its commands.
        NO_DRAM_NIC also gives the port to the NIC of boot firmware. Any other write sets the
        queue's address, which enables doorbells.
        """
        low = self._seg.cmdq_addr_l_sz
        if offset == CMDQ_ADDR_H:
            self._seg.cmdq_addr_h = value
        else:
            low.cmdq_phy_addr_l = value >> 12
            low.nic_interface = self._nic_interface(value >> 8 & 7)
            if (nic := self._hca.nodnic) is not None:
                nic.turn(on=low.nic_interface == NicInterface.NO_DRAM_NIC)
            if low.nic_interface != NicInterface.FULL_DRIVER:
                lifecycle.shut_down(self._hca)
                self._cmdif.forget()
                if low.nic_interface == NicInterface.NO_DRAM_NIC:
                    lifecycle.set_admin(self._hca, up=True)
                return
        self._cmdif.set_address(self._seg.cmdq_addr_h << 32 | low.cmdq_phy_addr_l << 12)

    def _nic_interface(self, value: int) -> int:
        """Return the requested interface; FULL_DRIVER for one that is not supported.

        DISABLED is the second half of a fast teardown (core/fw.c: mlx5_cmd_fast_teardown_hca).
        """
        if value in (NicInterface.FULL_DRIVER, NicInterface.DISABLED) or (
            value == NicInterface.NO_DRAM_NIC and self._hca.nodnic is not None
        ):
            return value
        log.warning("nic_interface %d is not supported: full driver assumed", value)
        return NicInterface.FULL_DRIVER
