"""Checks the attribute values of a queue pair's transition (PRM "QP transitions").

Only the fields that a transition takes are checked. Programs leave the others at 0 or unchanged, so
checking those would refuse correct programs.

Sources: qp.c: mlx5_ib_modify_qp, __mlx5_ib_modify_qp; IBTA 11.2.5.2 (Modify Queue Pair). BAD_PARAM
is known for one value, a nonexistent port in RST2INIT_QP (quoted in the kernel's commit "RDMA/mlx5:
Allow only raw Ethernet QPs when RoCE isn't enabled"). For the others it is inferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.qp.transitions import AFFINITY, Selection
from emu.device.errors import BadParamError
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType

if TYPE_CHECKING:
    from emu.device.objects.queues.qp import Qp
    from emu.device.port.link import PathChecks
    from emu.device.state.caps import Caps
    from layouts.objects.qp import ads, qpc

MTU_CODES: Final = range(1, 6)
"""IBTA's codes for 256 to 4096 bytes."""
_SMALLEST_PKEY_TABLE: Final = 128
"""Entries for pkey_table_size 0; each next code doubles them (driver.h: mlx5_to_sw_pkey_sz)."""

_WITH_PATH: Final = (QpType.RC, QpType.UC, QpType.XRC)
_WITH_MTU: Final = (*_WITH_PATH, QpType.DCI)
"""Services that segment messages. A datagram is one packet; iPXE's golan.c sets no MTU for UD."""


def check(link: PathChecks, caps: Caps, op: Op, qp: Qp, given: qpc, what: Selection) -> None:
    """Refuse with BAD_PARAM_ERR an invalid value in the fields that ``what`` takes from ``given``.

    Checks port, P_Key index, MTU, log_msg_max, LAG affinity, the depths for READs, and for RC, UC
    and XRC the primary path. Other services, or no apm, have no alternate path: one is refused.
    RTS2RTS_QP with udp_sport is refused without its capability, whatever the value.
    """
    path = given.primary_address_path
    if "vhca_port_num" in what.path:
        check_port(caps, path.vhca_port_num)
    if "pkey_index" in what.path:
        check_pkey_index(caps, path.pkey_index)
    if "src_addr_index" in what.path and qp.st in _WITH_PATH:
        link.check_path(path)
    if what.has_alternate:
        _check_alternate(link, caps, qp, given.secondary_address_path)
    if "mtu" in what.fields:
        _check_mtu(op, qp, given.mtu)
    if "log_msg_max" in what.fields and given.log_msg_max > caps.general.log_max_msg:
        raise BadParamError("log_msg_max above log_max_msg", f"{given.log_msg_max}")
    if "udp_sport" in what.path and op is Op.RTS2RTS_QP and not caps.general.rts2rts_qp_udp_sport:
        raise BadParamError("this port does not support a change of udp_sport")
    _check_affinity(caps, given, what)
    _check_depths(caps, qp, given, what)


def _check_affinity(caps: Caps, given: qpc, what: Selection) -> None:
    """Refuse with BAD_PARAM_ERR a LAG port affinity above num_lag_ports.

    Without LAG ports any value is accepted and has no effect.
    """
    ports = caps.general.num_lag_ports
    if ports and AFFINITY in what.fields and given.lag_tx_port_affinity > ports:
        raise BadParamError(
            "lag_tx_port_affinity above num_lag_ports", f"{given.lag_tx_port_affinity}"
        )


def _check_alternate(link: PathChecks, caps: Caps, qp: Qp, path: ads) -> None:
    """Refuse with BAD_PARAM_ERR an alternate path that is invalid or not supported.

    Only RC, UC and XRC have one, and only with the capability apm. Checks port, P_Key index and
    address.
    """
    if not caps.general.apm or qp.st not in _WITH_PATH:
        raise BadParamError("this service has no alternate path", qp.st.name)
    check_port(caps, path.vhca_port_num)
    check_pkey_index(caps, path.pkey_index)
    link.check_path(path)


def check_port(caps: Caps, number: int) -> None:
    """Refuse a port number outside 1 to num_ports with BAD_PARAM_ERR."""
    if not 1 <= number <= caps.general.num_ports:
        raise BadParamError("no such port", f"{number}")


def check_pkey_index(caps: Caps, index: int) -> None:
    """Refuse a P_Key index at or above the table's size with BAD_PARAM_ERR.

    An entry may be empty: all packets are then dropped until the subnet manager fills it.
    """
    if index >= _SMALLEST_PKEY_TABLE << caps.general.pkey_table_size:
        raise BadParamError("pkey_index is beyond the table", f"{index}")


def _check_mtu(op: Op, qp: Qp, code: int) -> None:
    """Refuse with BAD_PARAM_ERR an MTU code that IBTA does not define (1 to 5).

    Code 0 means "later" and is accepted, but INIT2RTR of a service with segments needs a code, now
    or from an earlier command.
    """
    is_needed = op is Op.INIT2RTR_QP and qp.st in _WITH_MTU
    code = code or (qp.ctx.mtu if is_needed else MTU_CODES[0])
    if code not in MTU_CODES:
        raise BadParamError("MTU is not one of IBTA's codes", f"{code}")


def _check_depths(caps: Caps, qp: Qp, given: qpc, what: Selection) -> None:
    """Refuse with BAD_PARAM_ERR log_sra_max or log_rra_max above the capability.

    The driver compares max_rd_atomic (log_sra_max) with log_max_ra_res and max_dest_rd_atomic
    (log_rra_max) with log_max_ra_req (qp.c: validate_rd_atomic). A DCI has capabilities of its own.
    """
    general, is_dc = caps.general, qp.st is QpType.DCI
    most_sent = general.log_max_ra_res_dc if is_dc else general.log_max_ra_res_qp
    most_taken = general.log_max_ra_req_dc if is_dc else general.log_max_ra_req_qp
    if "log_sra_max" in what.fields and given.log_sra_max > most_sent:
        raise BadParamError("log_sra_max above log_max_ra_res", f"{given.log_sra_max}")
    if "log_rra_max" in what.fields and given.log_rra_max > most_taken:
        raise BadParamError("log_rra_max above log_max_ra_req", f"{given.log_rra_max}")
