"""Datagrams of IP over InfiniBand, with the Ethernet segment of their requests.

    ctrl (16) | av (48) | pad (16) | Ethernet segment (16 or more) | data

Headers may be inline behind that segment's first 14 bytes; a large send needs them there.

Source: hw/wr.c: handle_qpt_ud, set_eth_seg; PRM "Ethernet segment".
"""

from __future__ import annotations

from typing import Final

from emu.device.engine.mr.access import listed_length
from emu.device.engine.mr.access_error import PACKET_BYTES
from emu.device.engine.wqe.messages import SOLICITED, data_segments, gather
from emu.device.objects.eth.sq import Sq
from emu.device.objects.memory.rights import LOCAL_READ
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.port.datagram import Datagram, Destination, LargeSend
from emu.device.port.eth.headers import FrameError
from emu.device.port.ib import ipoib
from emu.device.state.hca import Hca
from layouts.enums.wqe import EthChecksum
from layouts.rings.eth_wqe import ETH, INLINE_HDR_START
from layouts.rings.wqe import DS

PAD_BYTES: Final = 16
MAX_PAYLOAD: Final = 1 << 18
"""Maximum bytes of a large send: 2**max_lso_cap of an Ethernet function."""
_INLINE_SIZE_SHIFT: Final = 16
_L3: Final = int(EthChecksum.L3)
_L4: Final = int(EthChecksum.L4)


def _segment(wqe: Wqe, at: int) -> tuple[int, int, bytes, int]:
    """Return the requested checksums, mss, the inline headers, and the offset of the data.

    Raises BadWqeError when the segments exceed the WQE.
    """
    at += PAD_BYTES
    end, body = wqe.ds * DS, at + ETH.size
    if body > end:
        raise BadWqeError(f"ds {wqe.ds} is too short for the Ethernet segment")
    cs_flags, mss, _, trailer = ETH.unpack_from(wqe.buf, at)
    size, start = trailer >> _INLINE_SIZE_SHIFT, at + INLINE_HDR_START
    if start + size > end:
        raise BadWqeError(f"inline headers of {size} bytes exceed the WQE")
    if size:
        body = max(start + size + DS - 1 & -DS, body)
    return cs_flags, mss, bytes(wqe.buf[start : start + size]), body


def one(
    hca: Hca, queue: Qp | Sq, wqe: Wqe, to: Destination, at: int, immediate: int | None = None
) -> Datagram:
    """Return the datagram of a request whose address vector ends at byte ``at``.

    Requested checksums are filled in. A datagram longer than PACKET_BYTES has no data: its length
    makes the request fail. Raises BadWqeError, also for headers that checksums need and that are
    incomplete, and AccessError for memory that the queue may not read.
    """
    cs_flags, _, header, at = _segment(wqe, at)
    solicited = bool(wqe.fm_ce_se & SOLICITED)
    segments = data_segments(wqe, at)
    length = len(header) + listed_length(hca, segments)
    if length > PACKET_BYTES:  # longer than any datagram: the length alone makes it fail
        return Datagram(to, (), length, immediate, solicited)
    data, _ = gather(hca, queue, wqe, segments, LOCAL_READ)
    packet = b"".join((header, *data))
    if cs_flags & (_L3 | _L4):
        try:
            packet = ipoib.insert(packet, l3=bool(cs_flags & _L3), l4=bool(cs_flags & _L4))
        except FrameError as error:
            raise BadWqeError(str(error)) from None
    return Datagram(to, (memoryview(packet),), length, immediate, solicited)


def large(hca: Hca, queue: Qp | Sq, wqe: Wqe, to: Destination, at: int) -> Datagram | LargeSend:
    """Return the datagrams of a large send, cut by its mss.

    Above MAX_PAYLOAD the result is one datagram without data, whose length makes the request fail.
    Raises the errors of :func:`one`.
    """
    _, mss, header, at = _segment(wqe, at)
    segments = data_segments(wqe, at)
    length = listed_length(hca, segments)
    if length > MAX_PAYLOAD:
        return Datagram(to, (), length, None, False)
    data, _ = gather(hca, queue, wqe, segments, LOCAL_READ)
    try:
        packets = ipoib.cut(header, b"".join(data), mss)
    except FrameError as error:
        raise BadWqeError(str(error)) from None
    return LargeSend([Datagram(to, (memoryview(one),), len(one), None, False) for one in packets])
