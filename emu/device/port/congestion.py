"""Congestion control state of a RoCE port: parameters, status by priority, counters.

The port is a notification point, which answers marked packets by congestion notification packets
(CNPs). The port is also a reaction point, whose flows slow down when they get a CNP.

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
"""Denominator of ``initial_alpha_value`` and ``dce_tcp_g``."""
_BITS: Final = 32


@dataclass(slots=True)
class ReactionPoint:
    """Parameters of the reaction point; names as in mlx5_ifc.h, units as in debugfs."""

    clamp_tgt_rate: int = 0
    clamp_tgt_rate_after_time_inc: int = 1
    rpg_time_reset: int = 300
    """Microseconds between two increases."""
    rpg_byte_reset: int = 32767
    """Bytes between two increases, in units of 64."""
    rpg_threshold: int = 1
    """Number of increases of a kind before the target rate rises."""
    rpg_max_rate: int = 0
    """Mb/s; 0 is the port's speed."""
    rpg_ai_rate: int = 5
    rpg_hai_rate: int = 50
    rpg_gd: int = 11
    rpg_min_dec_fac: int = 50
    """Minimum percentage of the rate that is left after a CNP."""
    rpg_min_rate: int = 1
    rate_to_set_on_first_cnp: int = 0
    """Mb/s; 0: the reduction starts from the port's speed."""
    dce_tcp_g: int = 1019
    """The weight of the newest ``dce_tcp_rtt`` in the congestion estimate, in 1024ths."""
    dce_tcp_rtt: int = 1
    """Microseconds."""
    rate_reduce_monitor_period: int = 4
    """Microseconds between two reductions."""
    initial_alpha_value: int = 1023


@dataclass(slots=True)
class NotificationPoint:
    """Parameters of the notification point."""

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
"""Maximum values of parameters with a limit below that of their field."""


class Congestion:
    """Congestion control of one port, since power-on."""

    def __init__(self, speed: int) -> None:
        """Set the defaults for a port of ``speed`` Mb/s."""
        self.rp = ReactionPoint()
        self.np = NotificationPoint()
        self.rp_enabled = [True] * PRIORITIES
        self.np_enabled = [True] * PRIORITIES
        self.counts: Counter[str] = Counter()
        """Counters by the names in query_cong_statistics_out, without "_high" and "_low"."""
        self.flows = 0
        """Number of queue pairs whose rate is limited now."""
        self.changes = 0
        """Grows when a setting changes that affects packet headers."""
        self._speed = speed

    @property
    def most_rate(self) -> int:
        """Maximum rate of a flow, in bits per second."""
        max_rate = self.rp.rpg_max_rate
        return (min(max_rate, self._speed) if max_rate else self._speed) * 1_000_000

    def enable(self, statuses: list[bool], priority: int, *, enabled: bool) -> None:
        """Set the status of a priority in ``statuses``: ``rp_enabled`` or ``np_enabled``.

        Each call makes connections rebuild their packet headers, whose ECN field depends on it.
        """
        statuses[priority] = enabled
        self.changes += 1
