"""State machine of a queue pair, as tables (IBTA 10.3.1; PRM "QP transitions").

A transition command carries a whole qpc, but only some fields apply: those that the transition
requires, and the optional ones that ``opt_param_mask`` selects. The other fields are zero and must
not be copied (hw/qp.c: __mlx5_ib_modify_qp).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from emu.device.errors import BadParamError
from layouts.enums.cmd import Op
from layouts.enums.qp import QpState

if TYPE_CHECKING:
    from layouts.objects.qp import qpc
    from layouts.prm import Prm

S: Final = QpState


@dataclass(frozen=True, slots=True)
class Transition:
    """Source states and target of a command, and the qpc fields that it requires."""

    sources: frozenset[QpState]
    target: QpState
    required: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    """Required fields of the primary address path."""

    def __str__(self) -> str:
        """Return the states, such as ``INIT to RTR``."""
        sources = "any state" if self.sources == _ANY else ", ".join(s.name for s in self.sources)
        return f"{sources} to {self.target.name}"


RECEIVING: Final = (QpState.RTR, QpState.RTS, QpState.SQD, QpState.SQER)
"""States in which the responder takes requests (IBTA 10.3.1)."""

ESTABLISHED: Final = (QpState.RTS, QpState.SQD, QpState.SQER)
"""Receiving states in which the first request raises no event (see ``events.establish``)."""

_ANY: Final = frozenset(QpState)
_MTU: Final = ("mtu", "log_msg_max")
AFFINITY: Final = "lag_tx_port_affinity"
"""Affinity to a LAG port; with one port it is stored and ignored."""
_ACCESS: Final = ("rre", "rwe", "rae", "atomic_mode")
_INITIAL: Final = ("pm_state", "q_key", "counter_set_id", "rlky", "deth_sqpn", "log_ack_req_freq")
_PATH: Final = (
    "fl", "free_ar", "grh", "mlid", "rlid", "src_addr_index", "stat_rate", "hop_limit", "tclass",
    "flow_label", "rgid_rip", "f_dscp", "f_ecn", "f_eth_prio", "ecn", "dscp", "udp_sport",
    "eth_prio", "sl", "rmac_47_32", "rmac_31_0",
)  # fmt: skip

TRANSITIONS: Final[Mapping[Op, Transition]] = {
    Op.RST2INIT_QP: Transition(
        frozenset({S.RST}),
        S.INIT,
        (*_ACCESS, *_MTU, *_INITIAL, AFFINITY),
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

_ALT_ADDR_PATH: Final = 0
_RRE: Final = 1
_RAE: Final = 2
_RWE: Final = 3
_PKEY_INDEX: Final = 4
_Q_KEY: Final = 5
_RNR_TIMEOUT: Final = 6
_PM_STATE: Final = 10
_DRAIN_SIGERR: Final = 11
_LAG_TX_AFF: Final = 15
_PRI_PORT: Final = 16
_COUNTER_SET_ID: Final = 25
_UDP_SPORT: Final = 2
"""Bit of opt_param_mask_95_32."""

_OPTIONAL: Final[Mapping[int, tuple[str, ...]]] = {
    _RRE: ("rre",),
    _RAE: ("rae", "atomic_mode"),
    _RWE: ("rwe",),
    _Q_KEY: ("q_key",),
    _RNR_TIMEOUT: ("min_rnr_nak",),
    _PM_STATE: ("pm_state",),
    _DRAIN_SIGERR: ("drain_sigerr",),
    _COUNTER_SET_ID: ("counter_set_id",),
    _LAG_TX_AFF: (AFFINITY,),
}
"""Bits of opt_param_mask (MLX5_QP_OPTPAR_*) that select fields of the qpc itself."""

_OPTIONAL_PATH: Final[Mapping[int, tuple[str, ...]]] = {
    _PKEY_INDEX: ("pkey_index",),
    _PRI_PORT: ("vhca_port_num",),
}
"""Bits that select fields of the primary address path."""

_HIGH_OPTIONAL_PATH: Final[Mapping[int, tuple[str, ...]]] = {_UDP_SPORT: ("udp_sport",)}
"""Bits of opt_param_mask_95_32 (rdma-core's mlx5_ifc.h: MLX5_QPC_OPT_MASK_32_*) for the path."""

DCI_STREAM_CHANNEL_ID: Final = 1 << 0
"""Bit of opt_param_mask_95_32: reset the stream that the context's extension names."""
QOS_QUEUE_GROUP_ID: Final = 1 << 1
"""Bit of opt_param_mask_95_32: queue groups for pacing, from the context's extension."""
MMO: Final = 1 << 3
"""Bit of opt_param_mask_95_32: memory-to-memory operations, from the context's extension."""


def _mask(*bits: int) -> int:
    return sum(1 << bit for bit in bits)


_ACCESS_OPTIONS: Final = (_RRE, _RAE, _RWE)

_OPTIONS: Final[Mapping[Op, int]] = {
    Op.INIT2INIT_QP: _mask(
        *_ACCESS_OPTIONS, _PKEY_INDEX, _Q_KEY, _PRI_PORT, _LAG_TX_AFF, _DRAIN_SIGERR
    ),
    Op.INIT2RTR_QP: _mask(*_ACCESS_OPTIONS, _PKEY_INDEX, _Q_KEY, _LAG_TX_AFF, _ALT_ADDR_PATH),
    Op.RTR2RTS_QP: _mask(*_ACCESS_OPTIONS, _Q_KEY, _RNR_TIMEOUT, _PM_STATE, _ALT_ADDR_PATH),
    Op.RTS2RTS_QP: _mask(
        *_ACCESS_OPTIONS,
        _ALT_ADDR_PATH,
        _Q_KEY,
        _RNR_TIMEOUT,
        _PM_STATE,
        _LAG_TX_AFF,
        _COUNTER_SET_ID,
    ),
    Op.SQERR2RTS_QP: _mask(*_ACCESS_OPTIONS, _Q_KEY, _RNR_TIMEOUT),
    Op.SQD_RTS_QP: _mask(*_ACCESS_OPTIONS, _Q_KEY, _RNR_TIMEOUT),
}
"""Bits of opt_param_mask that each transition supports.

The bits are those of qp.c: opt_mask, where the driver looks up its own, and those that programs add
which send commands themselves (DEVX): DRAIN_SIGERR (libmlx5: mlx5_modify_qp_drain_sigerr),
LAG_TX_AFF and COUNTER_SET_ID in RTS2RTS. The driver's table has a column for each service, which is
ignored here: iPXE's golan.c selects RRE and RWE for datagrams. The adapter does not support pacing
(``packet_pacing_req_rc``). No kernel sends a UD queue pair's SRQN and CQN_RCV.
"""

_HIGH_OPTIONS: Final[Mapping[Op, int]] = {
    Op.INIT2INIT_QP: MMO | QOS_QUEUE_GROUP_ID,
    Op.RTS2RTS_QP: _mask(_UDP_SPORT) | DCI_STREAM_CHANNEL_ID | QOS_QUEUE_GROUP_ID,
}
"""Bits of opt_param_mask_95_32 that each transition supports."""


class Selection(NamedTuple):
    """Fields that a command takes from its qpc; the others are ignored."""

    fields: tuple[str, ...]
    path: tuple[str, ...]
    """Fields of the primary address path."""
    has_alternate: bool = False
    """Whether the whole secondary address path is taken."""
    chooses_pm_state: bool = False
    """Whether the command selects pm_state, beyond the initial one."""


def selection(op: Op, opt_param_mask: int, high_mask: int = 0) -> Selection:
    """Return the fields that the transition requires or the masks select.

    ``high_mask`` is opt_param_mask_95_32. Raises BAD_PARAM_ERR for a bit that the transition does
    not support. ``op`` is a key of TRANSITIONS; the queue pair's state is not checked here.
    """
    if wrong := opt_param_mask & ~_OPTIONS.get(op, 0):
        raise BadParamError(
            "opt_param_mask has a bit that the transition does not support", f"{wrong:#x}"
        )
    if wrong := high_mask & ~_HIGH_OPTIONS.get(op, 0):
        raise BadParamError("opt_param_mask_95_32 has an unsupported bit", f"{wrong:#x}")
    row = TRANSITIONS[op]
    return Selection(
        (*row.required, *_selected(_OPTIONAL, opt_param_mask)),
        (
            *row.path,
            *_selected(_OPTIONAL_PATH, opt_param_mask),
            *_selected(_HIGH_OPTIONAL_PATH, high_mask),
        ),
        bool(opt_param_mask >> _ALT_ADDR_PATH & 1),
        bool(opt_param_mask >> _PM_STATE & 1),
    )


def _selected(table: Mapping[int, tuple[str, ...]], mask: int) -> Iterator[str]:
    return (name for bit, names in table.items() if mask >> bit & 1 for name in names)


def apply(ctx: qpc, given: qpc, what: Selection) -> None:
    """Copy the fields that the command takes from ``given`` into ``ctx``.

    mtu and log_msg_max of 0 mean "later" and are not copied. Values and state are not checked here.
    """
    _copy(ctx, given, what.fields)
    _copy(ctx.primary_address_path, given.primary_address_path, what.path)
    if what.has_alternate:
        ctx.secondary_address_path = bytes(given.secondary_address_path)


def _copy(target: Prm, source: Prm, names: tuple[str, ...]) -> None:
    """Copy the named fields, except mtu and log_msg_max when they are 0."""
    for name in names:
        value = getattr(source, name)
        # A connected QP gets its MTU with INIT2RTR, a datagram one with RST2INIT: 0 means "later".
        if value or name not in _MTU:
            setattr(target, name, value)
