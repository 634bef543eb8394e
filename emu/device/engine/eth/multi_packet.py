"""Multi-packet send requests (ENHANCED_MPSW): one request, a frame for each of its data segments.

The Ethernet segment holds for all frames. A segment is a whole frame, in memory or inline; mlx5e
sends small packets so that come together (skb_tx_mpwqe, xdp_tx_mpwqe), DPDK with txq_mpw_en. One
completion tells of all. When a frame cannot be sent, those before it have left already and those
behind it do not leave.

Source: PRM "Enhanced multi-packet send WQE"; core/en_tx.c: mlx5e_tx_mpwqe_add_dseg, core/en/xdp.c:
mlx5e_xdp_mpwqe_add_dseg.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.eth.gather import gather_each
from emu.device.engine.eth.transmit import ETH_AT, SEGMENTS_AT, send_frame
from emu.device.engine.eth.tunnels.sent import INNER, finished
from emu.device.objects.queues.send_queue import BadWqeError
from emu.device.port.eth.frame import MAX_BYTES
from emu.device.port.eth.headers import ETHERNET_BYTES
from layouts.rings.eth_wqe import ETH, INSERT_VLAN
from layouts.rings.wqe import DS

if TYPE_CHECKING:
    from emu.device.objects.eth.sq import Sq
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.state.hca import Hca

_eth: Final = ETH.unpack_from


def transmit_each(hca: Hca, sq: Sq, wqe: Wqe) -> None:
    """Send the frames of a multi-packet request.

    Raises BadWqeError, FrameLengthError or AccessError at the first segment that makes no frame;
    inline headers belong to one packet and are refused.
    """
    if not hca.caps.ethernet.enhanced_multi_pkt_send_wqe:
        raise BadWqeError("the adapter has no multi-packet requests")
    if wqe.ds * DS <= SEGMENTS_AT:
        raise BadWqeError(f"ds {wqe.ds} has no room for a packet")
    cs_flags, _, metadata, trailer = _eth(wqe.buf, ETH_AT)
    if trailer and not trailer & INSERT_VLAN:
        raise BadWqeError("inline headers in a multi-packet request")
    has_inner = cs_flags & INNER
    for data in gather_each(hca, sq, wqe, SEGMENTS_AT, MAX_BYTES):
        if has_inner and len(data) >= ETHERNET_BYTES:
            whole = finished(hca, sq, wqe, data, cs_flags)
            send_frame(hca, sq, whole, 0, trailer, metadata)
        else:
            send_frame(hca, sq, data, cs_flags, trailer, metadata)
