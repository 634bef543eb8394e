"""SEND and LSO WQEs of Ethernet queues: builds frames and puts them on the wire.

SEND is one frame: optional inline headers, data, an inserted VLAN tag, computed checksums. LSO is
inline headers and a long payload. An LSO request leaves as one super-frame, which is segmented
where frames are needed. If both checksums are requested, the frame is only marked; consumers that
need no checksum never compute it.

Source: PRM "Ethernet segment", "Large send offload"; core/en_tx.c: mlx5e_sq_xmit_wqe.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from emu.device.engine.eth import sniffer
from emu.device.engine.eth.gather import FrameLengthError, gather
from emu.device.engine.eth.pacing import follow_frame
from emu.device.engine.eth.receive import loop_back
from emu.device.engine.eth.rx_credits import use_credits
from emu.device.engine.eth.steering.egress import Leaving, steered
from emu.device.engine.eth.tunnels import sent
from emu.device.engine.eth.tunnels.sent import INNER
from emu.device.objects.queues.send_queue import BadWqeError
from emu.device.port.eth.checksum import insert
from emu.device.port.eth.flow_control import is_control
from emu.device.port.eth.frame import MAX_BYTES, MIN_BYTES, Frame
from emu.device.port.eth.headers import ETH_CTAG, ETH_STAG, ETHERNET_BYTES, FrameError, parse
from emu.device.port.eth.segment import segment, unsegmented
from emu.device.port.eth.traffic import FCS_BYTES, GROUP_BIT, MAC_BYTES
from emu.device.port.eth.vlan import insert_tag
from emu.device.rounds.costs import STEPS_PER_FRAME
from emu.device.state.points import FaultPoint
from layouts.enums.wqe import EthChecksum, Opcode
from layouts.rings.eth_wqe import ETH, INLINE_HDR_START, INSERT_SVLAN, INSERT_VLAN
from layouts.rings.wqe import DS

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Adapter, Vhca
    from emu.device.objects.eth.sq import AnySq, Sq
    from emu.device.objects.queues.send_queue import Wqe
    from emu.device.state.hca import Hca

FRAME_TX_POINT: Final[FaultPoint[[Frame, Vhca[Hca]], None]] = FaultPoint("frame.tx")
"""Shows a frame, and the function whose switch is to forward it."""


ETH_AT: Final = DS
_INLINE_AT: Final = ETH_AT + INLINE_HDR_START
SEGMENTS_AT: Final = ETH_AT + ETH.size
_PAD: Final = DS - 1
_INLINE_SIZE_SHIFT: Final = 16
_VLAN_TCI: Final = 0xFFFF
_L3: Final = int(EthChecksum.L3)
_L4: Final = int(EthChecksum.L4)
_BOTH: Final = _L3 | _L4
_LSO: Final = int(Opcode.LSO)

_eth: Final = ETH.unpack_from


def transmit(hca: Hca, sq: Sq, wqe: Wqe) -> None:
    """Send the frame or super-frame of a SEND or LSO WQE.

    Raises BadWqeError for a malformed WQE or super-frame, FrameLengthError for too much data or too
    few inline headers, AccessError for memory. No frame has been sent then.
    """
    if wqe.ds * DS < SEGMENTS_AT:
        raise BadWqeError(f"ds {wqe.ds} leaves no space for the Ethernet segment")
    cs_flags, mss, metadata, trailer = _eth(wqe.buf, ETH_AT)
    header, at = b"", SEGMENTS_AT
    if trailer and not trailer & INSERT_VLAN:
        header, at = _inline(wqe, trailer >> _INLINE_SIZE_SHIFT)
    if len(header) < sq.min_inline:
        raise FrameLengthError(
            f"{len(header)} inline header bytes, the queue needs {sq.min_inline}"
        )
    if wqe.opcode == _LSO:
        max_payload = 1 << hca.caps.ethernet.max_lso_cap
        payload = gather(hca, sq, wqe, at, b"", max_payload)
        if cs_flags & INNER:
            _send_tunnelled(hca, sq, wqe, header, payload, mss, metadata)
        else:
            _send_large(hca, sq, header, payload, mss, metadata)
        return
    data = gather(hca, sq, wqe, at, header, MAX_BYTES)
    if cs_flags & INNER and len(data) >= ETHERNET_BYTES:
        data, cs_flags = sent.finished(hca.parser, sq, wqe, data, cs_flags), 0
    send_frame(hca, sq, data, cs_flags, trailer, metadata)


def send_frame(hca: Hca, sq: Sq, data: bytes, cs_flags: int, trailer: int, metadata: int) -> None:
    """Send a frame, padded, with the VLAN tag and checksums that the Ethernet segment requests.

    ``metadata`` is the segment's value for register A. If both checksums are requested, the frame
    is only marked. Raises BadWqeError for a frame shorter than an Ethernet header.
    """
    if len(data) < ETHERNET_BYTES:
        raise BadWqeError(f"frame of {len(data)} bytes, shorter than an Ethernet header")
    if trailer & INSERT_VLAN:
        tpid = ETH_STAG if trailer & INSERT_SVLAN else ETH_CTAG
        data = insert_tag(data, trailer & _VLAN_TCI, tpid)
    checksums = cs_flags & _BOTH
    if checksums and checksums != _BOTH:
        data = insert(parse(data), l3=bool(checksums & _L3), l4=bool(checksums & _L4))
    if len(data) < MIN_BYTES:
        data = data.ljust(MIN_BYTES, b"\0")
    send(hca, sq, Frame(data, 0, checksums == _BOTH), 1, len(data), len(data), metadata)


def _inline(wqe: Wqe, size: int) -> tuple[bytes, int]:
    """Return the WQE's inline headers, and the offset of the segments behind them.

    Raises BadWqeError if they exceed the WQE.
    """
    if _INLINE_AT + size > wqe.ds * DS:
        raise BadWqeError(f"inline headers of {size} bytes exceed the WQE")
    at = SEGMENTS_AT + (max(size - (SEGMENTS_AT - _INLINE_AT), 0) + _PAD & ~_PAD)
    return wqe.buf[_INLINE_AT : _INLINE_AT + size], at


def _send_tunnelled(
    hca: Hca, sq: Sq, wqe: Wqe, header: bytes, payload: bytes, mss: int, metadata: int
) -> None:
    """Send a large send of tunneled packets as plain frames. Raises BadWqeError."""
    for data in sent.segments(hca.parser, sq, wqe, header, payload, mss):
        data = data.ljust(MIN_BYTES, b"\0")
        send(hca, sq, Frame(data), 1, len(data), len(data), metadata)


def _send_large(hca: Hca, sq: Sq, header: bytes, payload: bytes, mss: int, metadata: int) -> None:
    """Send a super-frame; send plain frames if one suffices or if the IP length would overflow.

    Raises BadWqeError for headers or an mss that cannot be segmented.
    """
    try:
        whole = unsegmented(header, payload, mss) if len(payload) > mss else None
        if whole is not None:
            frame = Frame(whole, mss, checked=True)
            packets = -(-len(payload) // mss)
            octets = packets * len(header) + len(payload)
            send(hca, sq, frame, packets, len(header) + mss, octets, metadata)
            return
        cut = segment(header, payload, mss)
    except FrameError as error:
        raise BadWqeError(str(error)) from None
    for data in cut:
        data = data.ljust(MIN_BYTES, b"\0")
        send(hca, sq, Frame(data), 1, len(data), len(data), metadata)


def send(
    hca: Hca, sq: AnySq, frame: Frame, packets: int, longest: int, octets: int, metadata: int = 0
) -> None:
    """Pass a frame through the NIC_TX tables and put the result on the wire, now or later.

    The frame stands for ``packets`` packets of at most ``longest`` bytes each and ``octets`` in
    all. The tables match ``metadata`` in register A. The budget and the queue's rates are charged.
    Deferred frames wait in ``Backlogs.egress``, in order; when it is full, the frame counts as
    discards.
    """
    hca.budget.charge(packets * STEPS_PER_FRAME)
    if (pacing := sq.pacing) is not None:
        if pacing.terms.by_class:
            pacing = follow_frame(hca, sq, pacing, frame.data)
        pacing.charge(octets, hca.clock.now_ns())
    frame.sqn = sq.handle
    if hca.nic_tx.root is None:
        _leave(hca, sq, frame, packets, longest, octets)
        return
    leaving = Leaving(frame, packets, longest, octets)
    if not hca.backlogs.egress.do(len(frame.data), _pass_tables, hca, sq, leaving, metadata):
        hca.nic_vport.sent.discards += packets


def _pass_tables(hca: Hca, sq: AnySq, leaving: Leaving, metadata: int) -> None:
    """Pass a frame through the NIC_TX tables and put the result on the wire."""
    leave = partial(_leave_as_steered, hca, sq)
    hca.backlogs.egress.begin(steered(hca, leaving, leave, metadata), len(leaving.frame.data))


def _leave_as_steered(hca: Hca, sq: AnySq, leaving: Leaving) -> None:
    leaving.frame.sqn = sq.handle
    _leave(hca, sq, *leaving)


def _leave(hca: Hca, sq: AnySq, frame: Frame, packets: int, longest: int, octets: int) -> None:
    """Put a frame on the wire; drop it as discards while the port is down, too_long beyond the MTU.

    A frame to one of the function's own addresses is looped back and not sent; a multicast frame is
    looped back and sent. The vPort's disable_uc_local_lb and disable_mc_local_lb suppress the
    loopback. The TIRs decide who takes looped frames (``Tir.takes``). A hairpin's frames are never
    looped back.
    """
    vport, tis, source = hca.nic_vport, sq.tis, sq.source
    by = hca
    if tis is not None and tis.affinity:
        by = _port_of(hca.vhca, tis.affinity) or hca
    if not by.nic_vport.is_up:
        vport.sent.discards += packets
        vport.sent_while_down += packets
    elif longest + FCS_BYTES > vport.oper_mtu:
        vport.sent.too_long += packets
        vport.sent.errors += packets
    else:
        vport.sent.add(frame.data, packets, octets)
        if hca.is_sniffed:
            sniffer.copy(hca, hca.sniffer_tx, frame)
        is_multicast = frame.data[0] & GROUP_BIT
        if is_multicast and is_control(frame.data) and _goes_out(by):
            by.nic_vport.port.flow.sent.control += 1
        if (
            source is not None
            and (is_multicast or _is_own(vport.own, vport.permanent_address, frame.data))
            and not hca.switch.is_decided(hca)
        ):
            if not (vport.disable_mc_local_lb if is_multicast else vport.disable_uc_local_lb):
                loop_back(hca, frame, source)
            if not is_multicast:
                vport.looped_out.add(frame.data, packets, octets)
                return
        use_credits(hca.link_partner, frame.data, packets)
        if by is not hca:
            _count_forwarded(by, hca.adapter, frame, packets, octets)
            frame = replace(frame, sqn=0)  # the queue is one of the other function
        if hca.probes.faults is not None:
            hca.probes.faults.show(FRAME_TX_POINT, frame, by.vhca)
        else:
            by.switch.forward(by, frame)


def _goes_out(hca: Hca) -> bool:
    """Return whether a frame leaves by the cable without tables, which count their own."""
    return hca.vhca.is_manager and not hca.switch.is_decided(hca)


def _port_of(vhca: Vhca[Hca], affinity: int) -> Hca | None:
    """Return the function by whose port frames with a TIS affinity leave; None outside a LAG."""
    board = vhca.adapter.board
    lag = board.lag_of(vhca)
    return None if lag is None else board.adapters[lag.port_of(affinity, 0) - 1].manager.node


def _count_forwarded(by: Hca, own: Adapter[Hca], frame: Frame, packets: int, octets: int) -> None:
    """Count a frame as forwarded by a LAG's other port, that of ``by``, on both adapters.

    Tables of that port's switch count it themselves.
    """
    if not by.switch.is_decided(by):  # tables count the frames that leave them
        for adapter in (by.adapter, own):
            adapter.forwarded.sent.add(frame.data, packets, octets)


def _is_own(addresses: frozenset[bytes], permanent: bytes, data: bytes) -> bool:
    """Return whether the driver receives at the destination MAC address.

    Before the driver sets addresses, this is the vPort's permanent address.
    """
    to = data[:MAC_BYTES]
    return to in addresses or (not addresses and to == permanent)
