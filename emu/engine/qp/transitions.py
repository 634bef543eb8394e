"""The state machine of a queue pair, as tables (IBTA 10.3.1; PRM "QP transitions").

A transition command carries a whole qpc, but only some of it counts: the fields that the transition
requires, and the optional ones that ``opt_param_mask`` selects. Everything else in it is zero and
must not be copied (hw/qp.c:__mlx5_ib_modify_qp).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from layouts.enums import Op, QpState

S = QpState


@dataclass(frozen=True, slots=True)
class Transition:
    """The source states and the target of a command, and the qpc fields that it requires."""

    sources: frozenset[QpState]
    target: QpState
    required: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    """Required fields of the primary address path."""

    def __str__(self) -> str:
        """``INIT to RTR``."""
        sources = "any state" if self.sources == _ANY else ", ".join(s.name for s in self.sources)
        return f"{sources} to {self.target.name}"


RECEIVING = (QpState.RTR, QpState.RTS, QpState.SQD, QpState.SQER)
"""States in which the responder takes requests (IBTA 10.3.1)."""

_ANY = frozenset(QpState)
_MTU = ("mtu", "log_msg_max")
_ACCESS = ("rre", "rwe", "rae", "atomic_mode")
_INITIAL = ("pm_state", "q_key", "counter_set_id", "rlky", "deth_sqpn", "log_ack_req_freq")
_PATH = (
    "fl", "free_ar", "grh", "mlid", "rlid", "src_addr_index", "stat_rate", "hop_limit", "tclass",
    "flow_label", "rgid_rip", "f_dscp", "f_ecn", "f_eth_prio", "ecn", "dscp", "udp_sport",
    "eth_prio", "sl", "rmac_47_32", "rmac_31_0",
)  # fmt: skip

TRANSITIONS: Mapping[Op, Transition] = {
    Op.RST2INIT_QP: Transition(
        frozenset({S.RST}),
        S.INIT,
        (*_ACCESS, *_MTU, *_INITIAL),
        ("pkey_index", "vhca_port_num"),
    ),
    Op.INIT2INIT_QP: Transition(frozenset({S.INIT}), S.INIT),
    Op.INIT2RTR_QP: Transition(
        frozenset({S.INIT}),
        S.RTR,
        ("remote_qpn", "next_rcv_psn", "log_rra_max", "min_rnr_nak", *_MTU),
        _PATH,
    ),
    Op.RTR2RTS_QP: Transition(
        frozenset({S.RTR}),
        S.RTS,
        ("next_send_psn", "log_sra_max", "retry_count", "rnr_retry", "log_ack_req_freq"),
        ("ack_timeout",),
    ),
    Op.RTS2RTS_QP: Transition(frozenset({S.RTS}), S.RTS),
    Op.SQERR2RTS_QP: Transition(frozenset({S.SQER}), S.RTS),
    Op.SQD_RTS_QP: Transition(frozenset({S.SQD}), S.RTS),
    Op._2ERR_QP: Transition(_ANY, S.ERR),
    Op._2RST_QP: Transition(_ANY, S.RST),
}

_OPTIONAL: Mapping[int, tuple[str, ...]] = {
    1: ("rre",),
    2: ("rae", "atomic_mode"),
    3: ("rwe",),
    5: ("q_key",),
    6: ("min_rnr_nak",),
    8: ("log_sra_max",),
    9: ("log_rra_max",),
    10: ("pm_state",),
    11: ("drain_sigerr",),
    12: ("retry_count",),
    13: ("rnr_retry",),
    25: ("counter_set_id",),
}
"""Bits of opt_param_mask (MLX5_QP_OPTPAR_*) that select fields of the qpc itself."""

_OPTIONAL_PATH: Mapping[int, tuple[str, ...]] = {
    4: ("pkey_index",),
    7: _PATH,
    14: ("ack_timeout",),
    16: ("vhca_port_num",),
}
"""Bits that select fields of the primary address path."""

_HIGH_OPTIONAL_PATH: Mapping[int, tuple[str, ...]] = {2: ("udp_sport",)}
"""Bits of opt_param_mask_95_32 (rdma-core's mlx5_ifc.h: MLX5_QPC_OPT_MASK_32_*), of the path."""

DCI_STREAM_CHANNEL_ID = 1 << 0
"""Of the same mask: reset the stream that the extension of the context names."""

KNOWN_HIGH_OPTIONS = sum(1 << bit for bit in _HIGH_OPTIONAL_PATH) | DCI_STREAM_CHANNEL_ID

_LAG_TX_AFFINITY = 15

KNOWN_OPTIONS = sum(1 << bit for bit in (*_OPTIONAL, *_OPTIONAL_PATH)) | 1 << _LAG_TX_AFFINITY
"""Every bit of opt_param_mask that is accepted; LAG affinity is ignored with one port."""


def apply(
    transition: Transition, ctx: Any, given: Any, opt_param_mask: int, high_mask: int = 0
) -> None:
    """Copy what the transition requires and what the masks select from ``given`` into ``ctx``.

    ``high_mask`` is opt_param_mask_95_32.
    """
    _copy(ctx, given, transition.required)
    _copy(ctx.primary_address_path, given.primary_address_path, transition.path)
    for bit, names in _OPTIONAL.items():
        if opt_param_mask >> bit & 1:
            _copy(ctx, given, names)
    for table, mask in ((_OPTIONAL_PATH, opt_param_mask), (_HIGH_OPTIONAL_PATH, high_mask)):
        for bit, names in table.items():
            if mask >> bit & 1:
                _copy(ctx.primary_address_path, given.primary_address_path, names)
    ctx.state = transition.target


def _copy(target: Any, source: Any, names: tuple[str, ...]) -> None:
    for name in names:
        value = getattr(source, name)
        # A connected QP gets its MTU with INIT2RTR, a datagram one with RST2INIT: 0 means "later".
        if value or name not in _MTU:
            setattr(target, name, value)
