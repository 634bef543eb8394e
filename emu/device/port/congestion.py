"""What a RoCE port knows of congestion: parameters, status by priority, counts.

The port is a notification point, which answers marked packets by congestion notification packets
(CNPs), and a reaction point, whose flows slow down when they get one.

Sources: IBTA annex A17.9; mlx5_ifc.h: cong_control_r_roce_ecn_rp, cong_control_r_roce_ecn_np,
query_cong_statistics_out; hw/cong.c.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

PRIORITIES: Final = 8
ALPHA_ONE: Final = 1 << 10
"""What ``initial_alpha_value`` and ``dce_tcp_g`` are parts of."""
_BITS: Final = 32


@dataclass(slots=True)
class ReactionPoint:
    """The reaction point's parameters; the names are mlx5_ifc.h's, the units those of debugfs."""

    clamp_tgt_rate: int = 0
    clamp_tgt_rate_after_time_inc: int = 1
    rpg_time_reset: int = 300
    """Microseconds from one increase to the next one."""
    rpg_byte_reset: int = 32767
    """Bytes from one increase to the next one, in units of 64."""
    rpg_threshold: int = 1
    """Increases of a kind before the target itself is raised."""
    rpg_max_rate: int = 0
    """Mb/s; 0 is the port's speed."""
    rpg_ai_rate: int = 5
    rpg_hai_rate: int = 50
    rpg_gd: int = 11
    rpg_min_dec_fac: int = 50
    """A CNP leaves at least so many percent of the rate."""
    rpg_min_rate: int = 1
    rate_to_set_on_first_cnp: int = 0
    """Mb/s; 0: the rate is reduced from the port's speed."""
    dce_tcp_g: int = 1019
    """The weight of the newest ``dce_tcp_rtt`` in the congestion estimate, in parts of 1024."""
    dce_tcp_rtt: int = 1
    """Microseconds."""
    rate_reduce_monitor_period: int = 4
    """Microseconds from one reduction to the next one."""
    initial_alpha_value: int = 1023


@dataclass(slots=True)
class NotificationPoint:
    """The notification point's parameters."""

    min_time_between_cnps: int = 4
    """Microseconds, for each queue pair."""
    cnp_dscp: int = 48
    cnp_prio_mode: int = 1
    """1: a CNP has the priority of its queue pair; 0: ``cnp_802p_prio``."""
    cnp_802p_prio: int = 6


LIMITS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "rpg_min_dec_fac": 100, "dce_tcp_g": ALPHA_ONE - 1, "initial_alpha_value": ALPHA_ONE - 1,
    }
)  # fmt: skip
"""The highest values of parameters that are less than their fields could hold."""


class Congestion:
    """Congestion control of one port, since power-on."""

    def __init__(self, speed: int) -> None:
        """``speed`` is the port's, in Mb/s."""
        self.rp = ReactionPoint()
        self.np = NotificationPoint()
        self.rp_enabled = [True] * PRIORITIES
        self.np_enabled = [True] * PRIORITIES
        self.counts: Counter[str] = Counter()
        """By the names in query_cong_statistics_out, without "_high" and "_low"."""
        self.flows = 0
        """Queue pairs whose rate is limited now."""
        self.changes = 0
        """Grows when something changes that is in the headers of packets."""
        self._speed = speed

    @property
    def most_rate(self) -> int:
        """Bits per second of a flow that is not limited."""
        max_rate = self.rp.rpg_max_rate
        return (min(max_rate, self._speed) if max_rate else self._speed) * 1_000_000

    def enable(self, statuses: list[bool], priority: int, *, enabled: bool) -> None:
        """Switch one of the points on or off for a priority."""
        statuses[priority] = enabled
        self.changes += 1
