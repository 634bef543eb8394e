"""Transport interface send (PRM "Transport interface send"; core/en_common.c, qp.c of mlx5_ib)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.eth import pacing
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.eth.tis import Tis
from firmware_cmds.options import first_set
from layouts.enums.caps import PortType, UctxCap
from layouts.enums.cmd import Op, Status
from layouts.objects import tis as layout

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

_NOT_BUILT = ("tls_en",)
"""Fields of tisc whose features have capability bits, none of which is set."""
_OF_LAGS = ("strict_lag_tx_port_affinity", "lag_tx_port_affinity")
"""Fields that need a board with two ports (lag_tx_port_affinity)."""
_PRIO, _STRICT, _AFFINITY = 1 << 0, 1 << 1, 1 << 2
"""Bits of modify_tis_bitmask."""


@command(Op.CREATE_TIS)
def create_tis(tables: ObjectTables, cmd: layout.create_tis_in, out: layout.create_tis_out) -> None:
    """Create a TIS: priority and transport domain of the send queues that name it.

    Every sent frame needs a TIS. A process may have one if its user context has the right to send
    raw packets, which the driver grants with CAP_NET_RAW (devx.c: mlx5_ib_devx_create). Without
    that right, or for an unsupported option or affinity, refuse with BAD_PARAM_ERR.
    """
    uctx = tables.uctxs.get(tables.caller.uid)
    if uctx is not None and not uctx.cap & UctxCap.RAW_TX:
        raise BadParamError("user context may not send raw packets", f"uid {tables.caller.uid:#x}")
    ctx = cmd.ctx.copy()
    absent = _NOT_BUILT if tables.caps.general.lag_tx_port_affinity else (*_NOT_BUILT, *_OF_LAGS)
    if name := first_set(ctx, absent):
        raise BadParamError("TIS option not supported", name)
    _check_affinity(tables.caps, ctx.lag_tx_port_affinity)
    td = tables.tds.need(ctx.transport_domain)
    out.tisn = tables.tises.add(Tis(ctx, td, _underlay(tables, ctx.underlay_qpn)))


def _check_affinity(caps: Caps, affinity: int) -> None:
    """Refuse an affinity above num_lag_ports with BAD_PARAM_ERR."""
    if affinity > caps.general.num_lag_ports:
        raise BadParamError("lag_tx_port_affinity above num_lag_ports", f"{affinity}")


def _underlay(tables: ObjectTables, number: int) -> Qp | None:
    """Return the underlay queue pair of the queues, on an InfiniBand port.

    The driver owns that queue pair. A process with the right to send raw packets may use it all the
    same (hw/qp.c: IB_QP_CREATE_SOURCE_QPN). Return None on an Ethernet port for number 0. Raises
    BAD_RES_ERR for a number without an underlay.
    """
    if not number and tables.model.port_type is PortType.ETH:
        return None
    qp = tables.qps.get(number)
    if qp is None or qp.steer is None:
        raise CmdError(Status.BAD_RES_ERR, "no underlay queue pair has this number", f"{number:#x}")
    return qp


@command(Op.MODIFY_TIS)
def modify_tis(hca: Hca, cmd: layout.modify_tis_in, out: layout.modify_tis_out) -> None:
    """Change the priority, or the port of a LAG.

    Send queues take the rate of another priority's traffic class over the next rounds.

    Source: qp.c: modify_raw_packet_eth_prio, modify_raw_packet_tx_affinity. Refuse another field,
    or a port above num_lag_ports, with BAD_PARAM_ERR.
    """
    tis = hca.tises.subject(cmd.tisn)
    allowed = _PRIO | (_STRICT | _AFFINITY if hca.caps.general.lag_tx_port_affinity else 0)
    chosen = int.from_bytes(bytes(cmd.bitmask), "big")
    if chosen & ~allowed:
        raise BadParamError("TIS field cannot be modified", bytes(cmd.bitmask).hex())
    if chosen & _AFFINITY:
        _check_affinity(hca.caps, cmd.ctx.lag_tx_port_affinity)
        tis.ctx.lag_tx_port_affinity = cmd.ctx.lag_tx_port_affinity
    if chosen & _STRICT:
        tis.ctx.strict_lag_tx_port_affinity = cmd.ctx.strict_lag_tx_port_affinity
    if chosen & _PRIO:
        tis.ctx.prio = cmd.ctx.prio
    before = tis.prio
    tis.decode()
    if tis.prio != before:
        pacing.apply_to_all(hca)


@command(Op.QUERY_TIS)
def query_tis(tables: ObjectTables, cmd: layout.query_tis_in, out: layout.query_tis_out) -> None:
    """Return the current context."""
    out.tis_context = bytes(tables.tises.need(cmd.tisn).ctx)


@command(Op.DESTROY_TIS)
def destroy_tis(
    tables: ObjectTables, cmd: layout.destroy_tis_in, out: layout.destroy_tis_out
) -> None:
    """Destroy the TIS; refused while a send queue names it."""
    tables.tises.remove(cmd.tisn)
