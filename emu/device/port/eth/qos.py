"""Quality of service of an Ethernet port: which priority a frame has, which class a priority.

The driver sets it for ``dcb``, ``lldptool`` and ``mlnx_qos`` (core/en_dcbnl.c). A frame's priority
is that of its VLAN tag or, when the port trusts DSCP, what the table says of its IP header; the
counters by priority follow it. Traffic classes have the rate limits that the driver gives them;
their shares are kept and change nothing, as no rate limits the port as a whole.

Source: PRM "QPTS", "QPDPM", "QTCT", "QETCR"; IEEE 802.1Q 8.6.8 (classes, ETS), RFC 2474 (DSCP).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from emu.device.objects.eth.pacing import Limit

PRIORITIES: Final = 8
CLASSES: Final = 8
DSCPS: Final = 64

ALL_OF_IT: Final = 100
"""Percent: what a traffic class may use that shares with nobody."""

_DSCPS_PER_CLASS_SELECTOR: Final = 8


def _by_class_selector() -> bytearray:
    return bytearray(dscp // _DSCPS_PER_CLASS_SELECTOR for dscp in range(DSCPS))


@dataclass(slots=True)
class TrafficClass:
    """A traffic class of ETS (ets_tcn_config_reg)."""

    group: int = CLASSES - 1
    """Its group; higher ones go first."""
    bw_allocation: int = ALL_OF_IT
    """Its share of what the group gets, in percent."""
    max_bw: tuple[int, int] = (0, 0)
    """Its limit as QETCR has it: units (BwUnit), and how many of them."""
    limit: Limit | None = None
    """The same limit, which all that is sent in the class uses up."""


def _classes() -> tuple[TrafficClass, ...]:
    return tuple(TrafficClass() for _ in range(CLASSES))


@dataclass(slots=True)
class Qos:
    """What the driver has chosen, from power-on."""

    dscp_to_priority: bytearray = field(default_factory=_by_class_selector)
    priority_to_class: bytearray = field(default_factory=lambda: bytearray(range(PRIORITIES)))
    classes: tuple[TrafficClass, ...] = field(default_factory=_classes)
    trusted: bytearray | None = None
    """``dscp_to_priority`` while the port trusts DSCP; None while it trusts VLAN tags."""

    def limit_of(self, priority: int) -> Limit | None:
        """The rate limit of what send queues of a priority (tisc.prio) send, if there is one.

        The driver writes twice the priority (core/en_common.c: mlx5e_create_tises).
        """
        return self.classes[self.priority_to_class[priority >> 1]].limit

    @property
    def trusts_dscp(self) -> bool:
        """Whether frames have their priorities by DSCP, not by VLAN tag."""
        return self.trusted is not None

    def trust(self, *, dscp: bool) -> None:
        """Take frames' priorities from their DSCP, or from their VLAN tags."""
        self.trusted = self.dscp_to_priority if dscp else None
