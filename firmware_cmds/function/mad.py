"""MAD_IFC: the driver hands a management datagram to the port's own agents (hw/mad.c:mlx5_MAD_IFC).

For its own queries the driver sets both bits of op_mod, so that no M_Key is checked. A datagram
that it forwards for another program (for example opensm) is checked, and trap 256 reports a wrong
M_Key. B_Keys are not modelled. With ``ib_virt`` the driver reads port data by other commands. The
remaining datagrams are performance MADs that set something, and classes without an agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.cmdif.registry import command
from emu.device.engine.ud import smp
from emu.device.port.ib import pma
from layouts.enums.cmd import Op
from layouts.wire import mad as layout
from layouts.wire.mads import RESPONSE, MadStatus, Method, MgmtClass, pma_mad

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

_IGNORE_MKEY: Final = 1
"""Bit of op_mod (hw/mad.c:mlx5_MAD_IFC)."""


@command(Op.MAD_IFC, privileged=True)
def mad_ifc(hca: Hca, cmd: layout.mad_ifc_in, out: layout.mad_ifc_out) -> None:
    """Return the agent's answer; a refusal is a status in that answer, as on the wire.

    An Ethernet function gets BAD_OP_ERR. Bit 0 of op_mod suppresses the check of the M_Key.
    """
    out.response_mad_packet = _answer(hca, cmd.mad, checks_mkey=not cmd.op_mod & _IGNORE_MKEY)


def _answer(hca: Hca, mad: bytes, *, checks_mkey: bool) -> bytes:
    """Return the response of the subnet or performance agent, 256 bytes.

    A wrong M_Key, a method without a response and a class without an agent get
    UNSUPPORTED_METHOD_ATTRIB.
    """
    port, mgmt_class = hca.ib, pma_mad.view(mad).mad_hdr.mgmt_class
    if mgmt_class in (MgmtClass.SUBN_LID_ROUTED, MgmtClass.SUBN_DIRECTED_ROUTE):
        answered = smp.answer(hca, mad, port.lid, checks_mkey=checks_mkey)
        return answered or _unsupported(mad)
    answer = pma.answer(port, mad) if mgmt_class == MgmtClass.PERF_MGMT else None
    return answer or _unsupported(mad)


def _unsupported(mad: bytes) -> bytes:
    """Return the MAD as a GetResp with the status UNSUPPORTED_METHOD_ATTRIB."""
    answer = pma_mad.view(bytearray(mad))
    answer.mad_hdr.method = Method.GET | RESPONSE
    answer.mad_hdr.status = MadStatus.UNSUPPORTED_METHOD_ATTRIB
    return bytes(answer)
