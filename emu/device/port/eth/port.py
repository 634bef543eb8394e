"""The physical Ethernet port of an adapter: its link, its MTU, its flow control.

The driver configures the port by registers (PAOS, PMTU, PTYS, PFCC, PPLM, PCMR). The functions of
the adapter send and receive by their vPorts (``emu.device.port.eth.vport``).

Source: PRM "Port registers"; mlx5_ifc.h: paos_reg, pmtu_reg.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from emu.device.port.eth.buffers import PortBuffers
from emu.device.port.eth.flow_control import FlowControl
from emu.device.port.eth.physical.speed import LinkModes
from emu.device.port.eth.qos import Qos

MAX_MTU: Final = 10_000
"""Hardware MTU: the longest frame with Ethernet header, a VLAN tag and frame check sequence."""
DEFAULT_MTU: Final = 1522


@dataclass(slots=True)
class EthPort:
    """Port 1 of an adapter."""

    modes: LinkModes = field(default_factory=lambda: LinkModes.of(100_000, is_extended=True))
    """Its link modes, and the one in use (PTYS)."""
    max_mtu: int = MAX_MTU
    admin_mtu: int = DEFAULT_MTU
    """Hardware MTU set by the drivers (PMTU): the largest of ``requested_mtus``."""
    requested_mtus: dict[int, int] = field(default_factory=dict)
    """Hardware MTU that the driver of each function has set, by vPort."""
    admin_up: bool = True
    """Whether the driver has enabled the port (PAOS)."""
    has_cable: bool = True
    """Whether a cable is plugged in."""
    an_disabled: bool = False
    """Whether the driver has disabled autonegotiation."""
    flow: FlowControl = field(default_factory=FlowControl)
    """Pause frames (PFCC)."""
    qos: Qos = field(default_factory=Qos)
    """Priorities and traffic classes."""
    count_paths: Callable[[], None] = lambda: None
    """Count RoCE's messages inside the process; called before the priorities change."""
    buffers: PortBuffers = field(default_factory=PortBuffers)
    """Its receive buffers (PPTB, PBMC)."""
    checks_fcs: bool = True
    """Whether frames with a wrong check sequence are dropped (PCMR)."""
    fec_admin: dict[str, int] = field(default_factory=dict)
    """The driver's error correction by mode (``emu.device.port.eth.physical.fec``); 0 lets the port
    choose."""
    ppcnt_base: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    """The counters of a PPCNT group when the driver last cleared it, by group and priority."""
    beacon_end_ns: int | None = 0
    """End of the port LED's identification blinking (MLCR); None for never."""
    link_downed: int = 0
    """Number of link failures: phys_layer_cntrs.link_down_events."""

    @property
    def speed(self) -> int:
        """Speed of the link in Mb/s."""
        return self.modes.mode.speed

    @property
    def is_up(self) -> bool:
        """Whether the link is up."""
        return self.admin_up and self.has_cable

    def request_mtu(self, vport_number: int, mtu: int) -> None:
        """Set the hardware MTU that a function needs; 0 drops its request.

        The last request that is dropped leaves ``admin_mtu`` unchanged.
        """
        self.requested_mtus.pop(vport_number, None)
        if mtu:
            self.requested_mtus[vport_number] = mtu
        self.admin_mtu = max(self.requested_mtus.values(), default=self.admin_mtu)

    def set_link(self, *, up: bool) -> None:
        """Plug the cable in, or pull it; count a link that goes down. No event is sent."""
        was_up = self.is_up
        self.has_cable = up
        self._count_link_failure(was_up)

    def set_admin(self, *, up: bool) -> None:
        """Enable or disable the port for the driver; count a link that goes down."""
        was_up = self.is_up
        self.admin_up = up
        self._count_link_failure(was_up)

    def _count_link_failure(self, was_up: bool) -> None:
        if was_up and not self.is_up:
            self.link_downed += 1

    @property
    def link_state(self) -> str:
        """The link's state, with the reason if down."""
        if not self.has_cable:
            return "NO CABLE"
        return "UP" if self.admin_up else "DISABLED"
