"""Link aggregation (PRM "LAG"): the ports of a board act as one (``emu.device.adapter.lag``).

The master of a LAG is the function of the first port: only its driver creates, changes and destroys
the LAG. Another sender gets BAD_OP_ERR. A command on a LAG that does not exist gets
BAD_RES_STATE_ERR. The order of the commands is CREATE_LAG, CREATE_VPORT_LAG, then the destroying
ones in reverse (core/lag/lag.c: mlx5_activate_lag; hw/main.c: mlx5_eth_lag_init). The driver sends
MODIFY_LAG when a port goes down or a bond chooses another one.

Processes query the LAG before they choose a port for each queue pair (UCX:
ib_mlx5dv_md.c:uct_ib_mlx5_devx_query_lag).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.adapter.lag import Lag
from emu.device.cmdif.registry import command
from emu.device.errors import BadParamError, CmdError
from emu.device.models.board_ports import MAX_PORTS
from emu.device.state.hca import HcaState
from layouts.enums.cmd import Op, Status
from layouts.enums.lag import LagPortSelect, ModifyLag
from layouts.function import lag as layout

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca

_EACH_ITS_OWN = tuple(range(1, MAX_PORTS + 1))
"""Port map for modes in which affinities do not decide."""
_MODES = (*LagPortSelect,)
"""Modes of a LAG. The first one needs no port selection."""
ACTIVE = 1
"""Value of lagc.lag_state; 0 means none."""


def _lag(hca: Hca) -> Lag:
    """Return the LAG whose master the sender is.

    Raises BAD_RES_STATE_ERR if there is none. Raises BAD_OP_ERR for a sender that cannot be its
    master.
    """
    _check_master(hca)
    if (lag := hca.adapter.board.lag) is None:
        raise CmdError(Status.BAD_RES_STATE_ERR, "there is no LAG")
    return lag


def _check_master(hca: Hca) -> None:
    """Refuse with BAD_OP_ERR a board with one port, and a sender that is not its master."""
    board = hca.adapter.board
    if not hca.caps.general.lag_master or len(board.adapters) < 2:
        raise CmdError(Status.BAD_OP_ERR, "a LAG needs a board with two ports")
    if hca.vhca is not board.master:
        raise CmdError(Status.BAD_OP_ERR, "only the first port's function is the master of a LAG")


def _remap(ports: int, ctx: layout.lagc) -> tuple[int, ...]:
    """Return the port of each affinity; raise BAD_PARAM_ERR for one that does not exist.

    Index 0 is the port of affinity 1.
    """
    remap = int(ctx.tx_remap_affinity_1), int(ctx.tx_remap_affinity_2)
    if not all(1 <= port <= ports for port in remap):
        raise BadParamError("tx_remap_affinity is 0 or above num_lag_ports", f"{remap}")
    return remap


def _mode(caps: Caps, ctx: layout.lagc) -> LagPortSelect:
    """Return the mode of port selection; raise BAD_PARAM_ERR for one the adapter does not have."""
    mode = int(ctx.port_select_mode)
    known = _MODES if caps.port_selection.port_select_flow_table else _MODES[:1]
    if mode not in known:
        raise BadParamError("port_select_mode not supported", f"{mode}")
    return LagPortSelect(mode)


def _active(caps: Caps, ports: int, ctx: layout.lagc) -> int:
    """Return the active ports of the context; raise BAD_PARAM_ERR for a bit above num_lag_ports.

    Raises BAD_PARAM_ERR also for any bit without port_select_flow_table_bypass.
    """
    active = int(ctx.active_port)
    if active and not caps.port_selection.port_select_flow_table_bypass:
        raise BadParamError("active_port without port_select_flow_table_bypass")
    if active >> ports:
        raise BadParamError("active_port has bits above num_lag_ports", f"{active:#x}")
    return active


@command(Op.CREATE_LAG, privileged=True)
def create_lag(hca: Hca, cmd: layout.create_lag_in, out: layout.create_lag_out) -> None:
    """Join the ports when the drivers of both have initialized their functions.

    With create_lag_when_not_master_up the sender's is enough. Refuse with BAD_RES_STATE_ERR a
    second LAG or a function that is not initialized, an unsupported mode or port with
    BAD_PARAM_ERR.
    """
    _check_master(hca)
    board = hca.adapter.board
    if board.lag is not None:
        raise CmdError(Status.BAD_RES_STATE_ERR, "the LAG already exists")
    mode = _mode(hca.caps, cmd.ctx)
    is_native = bool(cmd.ctx.fdb_selection_mode)
    if is_native and not hca.caps.general.lag_native_fdb_selection:
        raise BadParamError("no native selection of the FDB")
    by_affinity = mode is LagPortSelect.QUEUE_AFFINITY
    ports = len(board.adapters)
    remap = _remap(ports, cmd.ctx) if by_affinity else _EACH_ITS_OWN
    by_tables = mode is LagPortSelect.PORT_SELECT_FT
    active = _active(hca.caps, ports, cmd.ctx) if by_tables else 0
    nodes = [adapter.manager.node for adapter in board.adapters]
    needs_all = not hca.caps.general.create_lag_when_not_master_up
    if needs_all and any(node is None or node.state is not HcaState.INITIALIZED for node in nodes):
        raise CmdError(Status.BAD_RES_STATE_ERR, "a port's function is not initialized")
    has_tables = any(node is not None and node.switch.is_decided(node) for node in nodes)
    board.lag = Lag(remap, is_native or has_tables, is_native, mode, active)


@command(Op.MODIFY_LAG, privileged=True)
def modify_lag(hca: Hca, cmd: layout.modify_lag_in, out: layout.modify_lag_out) -> None:
    """Change the port by which each affinity's packets leave; queue pairs are unchanged.

    In the mode PORT_SELECT_FT change the active ports instead. Refuse another field or an unknown
    port with BAD_PARAM_ERR.
    """
    lag, ports = _lag(hca), len(hca.adapter.board.adapters)
    if lag.mode is LagPortSelect.PORT_SELECT_FT and cmd.field_select == ModifyLag.ACTIVE_PORT:
        lag.active = _active(hca.caps, ports, cmd.ctx)
        return
    by_affinity = lag.mode is LagPortSelect.QUEUE_AFFINITY
    if cmd.field_select != ModifyLag.TX_REMAP_AFFINITY or not by_affinity:
        raise BadParamError("field of a LAG cannot be modified", f"{cmd.field_select:#x}")
    lag.remap = _remap(ports, cmd.ctx)


@command(Op.QUERY_LAG)
def query_lag(hca: Hca, cmd: layout.query_lag_in, out: layout.query_lag_out) -> None:
    """Return whether there is a LAG, and the port by which each affinity's packets leave.

    Every function of the board may query it. Without one, queue pairs have no affinity to a port.
    Without one the output stays zero.
    """
    if (lag := hca.adapter.board.lag) is None:
        return
    out.ctx.lag_state = ACTIVE
    out.ctx.fdb_selection_mode = lag.is_native
    out.ctx.port_select_mode = lag.mode
    out.ctx.active_port = lag.active
    out.ctx.tx_remap_affinity_1, out.ctx.tx_remap_affinity_2 = lag.remap


@command(Op.DESTROY_LAG, privileged=True)
def destroy_lag(hca: Hca, cmd: layout.destroy_lag_in, out: layout.destroy_lag_out) -> None:
    """Separate the ports again; refused while the vPorts are joined."""
    if _lag(hca).has_vports:
        raise CmdError(Status.BAD_RES_STATE_ERR, "DESTROY_VPORT_LAG must precede DESTROY_LAG")
    hca.adapter.board.lag = None


@command(Op.CREATE_VPORT_LAG, privileged=True)
def create_vport_lag(
    hca: Hca, cmd: layout.create_vport_lag_in, out: layout.create_vport_lag_out
) -> None:
    """Join the vPorts: the master receives packets for its GIDs from any port.

    Refuse with BAD_RES_STATE_ERR if they are joined already.
    """
    lag = _lag(hca)
    if lag.has_vports:
        raise CmdError(Status.BAD_RES_STATE_ERR, "the vPorts are already joined")
    lag.has_vports = True


@command(Op.DESTROY_VPORT_LAG, privileged=True)
def destroy_vport_lag(
    hca: Hca, cmd: layout.destroy_vport_lag_in, out: layout.destroy_vport_lag_out
) -> None:
    """Separate the vPorts: each port's packets are for its own function again.

    Refuse with BAD_RES_STATE_ERR if they are not joined.
    """
    lag = _lag(hca)
    if not lag.has_vports:
        raise CmdError(Status.BAD_RES_STATE_ERR, "the vPorts are not joined")
    lag.has_vports = False
