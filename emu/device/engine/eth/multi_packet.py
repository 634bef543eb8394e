"""Multi-packet send WQEs (ENHANCED_MPSW): one frame for each data segment.

The Ethernet segment applies to all frames. A data segment holds one whole frame, in memory or
inline. mlx5e sends small packets in this way (skb_tx_mpwqe, xdp_tx_mpwqe), and so does DPDK with
txq_mpw_en. One CQE completes them all. If a frame cannot be sent, the earlier frames are already
sent and the later ones are not sent.

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
    """Send the frames of a multi-packet WQE, one for each data segment.

    Raises BadWqeError, FrameLengthError or AccessError at the first invalid segment; the frames
    before it have been sent. BadWqeError also for inline headers, for a WQE without segments, and
    where enhanced_multi_pkt_send_wqe is 0.
    """
    if not hca.caps.ethernet.enhanced_multi_pkt_send_wqe:
        raise BadWqeError("ENHANCED_MPSW: enhanced_multi_pkt_send_wqe is 0")
    if wqe.ds * DS <= SEGMENTS_AT:
        raise BadWqeError(f"ds {wqe.ds} leaves no space for a packet")
    cs_flags, _, metadata, trailer = _eth(wqe.buf, ETH_AT)
    if trailer and not trailer & INSERT_VLAN:
        raise BadWqeError("inline headers in a multi-packet WQE")
    has_inner = cs_flags & INNER
    for data in gather_each(hca, sq, wqe, SEGMENTS_AT, MAX_BYTES):
        if has_inner and len(data) >= ETHERNET_BYTES:
            whole = finished(hca.parser, sq, wqe, data, cs_flags)
            send_frame(hca, sq, whole, 0, trailer, metadata)
        else:
            send_frame(hca, sq, data, cs_flags, trailer, metadata)
