"""Quality of service of an Ethernet port: priorities of frames, traffic classes of priorities.

The driver sets it for ``dcb``, ``lldptool`` and ``mlnx_qos`` (core/en_dcbnl.c). A frame's priority
is that of its VLAN tag. If the port trusts DSCP, a table maps the DSCP of the IP header to the
priority. The counters by priority use it. Traffic classes have the driver's rate limits. Their
bandwidth allocations are stored without effect, as no rate limits the port as a whole.

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
"""Bandwidth allocation of a traffic class that does not share, in percent."""

_DSCPS_PER_CLASS_SELECTOR: Final = 8


def _by_class_selector() -> bytearray:
    return bytearray(dscp // _DSCPS_PER_CLASS_SELECTOR for dscp in range(DSCPS))


@dataclass(slots=True)
class TrafficClass:
    """A traffic class of ETS (ets_tcn_config_reg)."""

    group: int = CLASSES - 1
    """Its group; groups with higher numbers have priority."""
    bw_allocation: int = ALL_OF_IT
    """Its fraction of the group's bandwidth, in percent."""
    max_bw: tuple[int, int] = (0, 0)
    """Its limit as in QETCR: unit (BwUnit) and value."""
    limit: Limit | None = None
    """The same limit as a rate limiter, shared by all traffic of the class."""


def _classes() -> tuple[TrafficClass, ...]:
    return tuple(TrafficClass() for _ in range(CLASSES))


@dataclass(slots=True)
class Qos:
    """The driver's settings, defaults at power-on."""

    dscp_to_priority: bytearray = field(default_factory=_by_class_selector)
    priority_to_class: bytearray = field(default_factory=lambda: bytearray(range(PRIORITIES)))
    classes: tuple[TrafficClass, ...] = field(default_factory=_classes)
    trusted: bytearray | None = None
    """``dscp_to_priority`` while the port trusts DSCP; None while it trusts VLAN tags."""

    def limit_of(self, priority: int) -> Limit | None:
        """Return the rate limit of send queues with this priority (tisc.prio); None without one.

        ``priority`` is twice the priority, because the driver writes that (core/en_common.c:
        mlx5e_create_tises). The limit is that of its traffic class, shared by all its queues.
        """
        return self.classes[self.class_of(priority)].limit

    def class_of(self, priority: int) -> int:
        """Return the traffic class of send queues with this priority (tisc.prio)."""
        return self.priority_to_class[priority >> 1]

    @property
    def trusts_dscp(self) -> bool:
        """Whether the DSCP, not the VLAN tag, determines a frame's priority."""
        return self.trusted is not None

    def trust(self, *, dscp: bool) -> None:
        """Trust the DSCP or the VLAN tag for the priority of frames."""
        self.trusted = self.dscp_to_priority if dscp else None
