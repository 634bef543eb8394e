"""Congestion notifications (IBTA A17.9), and the rate of a flow that they slow down, by DCQCN.

A CNP answers a packet with an ECN mark, at most one in ``min_time_between_cnps`` for each
queue pair. A CNP from the peer slows the queue pair down and has no other effect. A flood of CNPs
at worst reduces the flow to the lowest rate.

Each CNP cuts the rate by half of the congestion estimate alpha: a moving average of received CNPs
with the weight ``dce_tcp_g``, updated every ``dce_tcp_rtt``. Then the rate rises towards its target
in steps of time and steps of bytes: first halfway to the target, then with the target itself
rising. The parameters are the port's (``emu.device.port.congestion``).

Source: Zhu et al., "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015), 3 and 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.port.congestion import ALPHA_ONE, Congestion
from emu.device.rounds.costs import LOG_INTERVALS_PER_STEP, STEPS_PER_NOTICE
from layouts.enums.qp import QpState

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.rounds.budget import Budget
    from emu.device.state.hca import Hca

BURST_NS: Final = 50_000
"""Maximum lead of a flow over its rate, so that it need not wait after each packet."""
IDLE_NS: Final = 1_000_000_000
"""Idle time after which a flow is forgotten."""
MAX_INTERVALS: Final = 256
"""Maximum number of time steps processed at once."""
_UNIT: Final = 64
"""Unit of ``rpg_byte_reset`` in bytes."""
_MEGA: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
_NS_PER_US: Final = 1000
_ALMOST: Final = 0.999
_RTS: Final = QpState.RTS


def answer_mark(hca: Hca, qp: Qp, congestion: Congestion, not_before: int) -> int:
    """Send a CNP to the peer for a packet with an ECN mark, and count the mark.

    Return the time from which on the peer may be notified again. No CNP is sent, nor np_cnp_sent
    counted, before ``not_before``, without np_enabled for the priority, or without a source GID.
    """
    congestion.counts["np_ecn_marked_roce_packets"] += 1
    now = hca.clock.now_ns()
    if not congestion.np_enabled[qp.eth_prio] or now < not_before:
        return not_before
    frame = hca.roce.notification(qp.ctx.primary_address_path, qp.remote_qpn)
    if frame:
        congestion.counts["np_cnp_sent"] += 1
        hca.link.count_sent(1, len(frame))
        hca.wire.transmit(hca, frame, qp.handle)
    return now + congestion.np.min_time_between_cnps * _NS_PER_US


def obeys(qp: Qp, congestion: Congestion) -> bool:
    """Return whether a queue pair obeys a CNP; count rp_cnp_handled, or rp_cnp_ignored.

    False outside RTS, and without rp_enabled for the priority.
    """
    is_obeyed = congestion.rp_enabled[qp.eth_prio] and qp.state is _RTS
    congestion.counts["rp_cnp_handled" if is_obeyed else "rp_cnp_ignored"] += 1
    return is_obeyed


def slowed_down(
    budget: Budget, congestion: Congestion, rate: FlowRate | None, now: int
) -> FlowRate:
    """Return the rate of a flow after a CNP, a new one for a flow without a limit."""
    if rate is None:
        rate = FlowRate(congestion, now)
    before = rate.made_up
    rate.notified(now)
    budget.charge(STEPS_PER_NOTICE + (rate.made_up - before >> LOG_INTERVALS_PER_STEP))
    return rate


class FlowRate:
    """Rate of one queue pair; times are in nanoseconds, rates in bits per second."""

    __slots__ = (
        "_alpha", "_alpha_ns", "_byte_steps", "_bytes", "_congestion", "_cut_ns", "_free_ns",
        "_step_ns", "_time_steps", "made_up", "rate", "target",
    )  # fmt: skip

    def __init__(self, congestion: Congestion, now: int) -> None:
        """Start at the first CNP's rate; the caller then calls ``notified`` for that CNP."""
        self._congestion = congestion
        rp = congestion.rp
        self.target = float(congestion.most_rate)
        first = rp.rate_to_set_on_first_cnp * _MEGA
        self.rate = float(min(first, congestion.most_rate) or congestion.most_rate)
        self._alpha = rp.initial_alpha_value / ALPHA_ONE
        self._alpha_ns = self._step_ns = self._free_ns = now
        self._cut_ns = now - rp.rate_reduce_monitor_period * _NS_PER_US
        self._time_steps = self._byte_steps = self._bytes = 0
        self.made_up = 0
        """Number of time steps so far; many are processed at once after an idle time."""

    # -- down

    def notified(self, now: int) -> None:
        """Raise the congestion estimate for a CNP, and cut the rate by half of the estimate.

        Within rate_reduce_monitor_period of the last cut the rate stays. The rate never falls below
        rpg_min_rate, nor rises above the port's.
        """
        rp = self._congestion.rp
        self._rise_by_time(now)
        self._decay(now)
        weight = rp.dce_tcp_g / ALPHA_ONE
        self._alpha = self._alpha * (1 - weight) + weight
        if now - self._cut_ns < rp.rate_reduce_monitor_period * _NS_PER_US:
            return
        if rp.clamp_tgt_rate or (rp.clamp_tgt_rate_after_time_inc and self._time_steps):
            self.target = self.rate
        least = max(self.rate * rp.rpg_min_dec_fac / 100, max(rp.rpg_min_rate, 1) * _MEGA)
        self.rate = min(max(self.rate * (1 - self._alpha / 2), least), self._congestion.most_rate)
        self.target = max(self.target, self.rate)
        self._cut_ns = self._step_ns = now
        self._time_steps = self._byte_steps = self._bytes = 0

    def _decay(self, now: int) -> None:
        """Reduce the congestion estimate once for each dce_tcp_rtt since the last call."""
        rp = self._congestion.rp
        if rp.dce_tcp_rtt:
            rounds = (now - self._alpha_ns) // (rp.dce_tcp_rtt * _NS_PER_US)
            self._alpha *= (1 - rp.dce_tcp_g / ALPHA_ONE) ** rounds
        self._alpha_ns = now

    # -- up

    def _rise_by_time(self, now: int) -> None:
        """Raise the rate one step for each rpg_time_reset passed, at most MAX_INTERVALS."""
        step_ns = self._congestion.rp.rpg_time_reset * _NS_PER_US
        if not step_ns:
            return
        steps = min((now - self._step_ns) // step_ns, MAX_INTERVALS)
        self.made_up += steps
        for _ in range(steps):
            self._time_steps += 1
            self._step_ns += step_ns
            self._rise()

    def _rise(self) -> None:
        """Raise the rate halfway to its target, which rises first after rpg_threshold steps."""
        rp = self._congestion.rp
        steps = self._time_steps, self._byte_steps
        if min(steps) > rp.rpg_threshold:
            self.target += rp.rpg_hai_rate * _MEGA
        elif max(steps) > rp.rpg_threshold:
            self.target += rp.rpg_ai_rate * _MEGA
        self.target = min(self.target, self._congestion.most_rate)
        self.rate = min((self.rate + self.target) / 2, self._congestion.most_rate)

    # -- sending

    def is_over(self, now: int) -> bool:
        """Return whether the flow needs no limit: it was idle, or has nearly the port's rate again.

        The rate is first raised for the elapsed time.
        """
        self._rise_by_time(now)
        is_idle = now - max(self._free_ns, self._cut_ns) > IDLE_NS
        return is_idle or self.rate >= self._congestion.most_rate * _ALMOST

    def sent(self, octets: int, now: int) -> int:
        """Charge a sent packet; return the nanoseconds to wait before the next one, 0 for none.

        A lead of up to BURST_NS over the rate needs no wait. Each rpg_byte_reset bytes raise the
        rate.
        """
        self._free_ns = max(now, self._free_ns) + int(octets * 8 * _NS_PER_S / self.rate)
        self._bytes += octets
        every = self._congestion.rp.rpg_byte_reset * _UNIT
        if every and self._bytes >= every:
            self._bytes -= every
            self._byte_steps += 1
            self._rise()
        ahead = self._free_ns - now
        return ahead if ahead > BURST_NS else 0
