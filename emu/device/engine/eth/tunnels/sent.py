"""Send WQEs of tunneled packets: checksums of both packets, and large sends.

The WQE requests them by the inner bits of cs_flags. A large send is segmented here, as a later
consumer of frames cannot segment a tunnel.

Source: PRM "Ethernet segment", "Software parsing"; core/en_tx.c: mlx5e_txwqe_build_eseg_csum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.objects.eth.sq import Sq
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.port.eth.headers import ETH_IPV4, ETH_IPV6, FrameError, Headers, parse, parse_ip
from emu.device.port.eth.tunnel import cut, inner_of, insert_both
from layouts.enums.wqe import EthChecksum
from layouts.rings.eth_wqe import SWP
from layouts.rings.wqe import DS

if TYPE_CHECKING:
    from emu.device.objects.eth.parser import Parser

INNER: Final = int(EthChecksum.L3_INNER | EthChecksum.L4_INNER)
_ORDER: Final = (EthChecksum.L3, EthChecksum.L4, EthChecksum.L3_INNER, EthChecksum.L4_INNER)
_SWP_WORD: Final = 2
"""Unit of the offsets, in bytes."""
_SWP_INNER_L3_IPV6: Final = 1 << 0


def finished(parser: Parser, sq: Sq, wqe: Wqe, data: bytes, cs_flags: int) -> bytes:
    """Return the frame with the checksums that cs_flags requests of outer and inner headers.

    A frame without a recognized tunnel gets the checksums of its outer headers only.
    """
    outer, inner = _headers(parser, sq, wqe, data, whole=True)
    outer_l3, outer_l4, inner_l3, inner_l4 = (bool(cs_flags & bit) for bit in _ORDER)
    if inner is None:
        inner_l3 = inner_l4 = False
        inner = outer
    return insert_both(outer, inner, (outer_l3, outer_l4, inner_l3, inner_l4))


def segments(
    parser: Parser, sq: Sq, wqe: Wqe, header: bytes, payload: bytes, mss: int
) -> list[bytes]:
    """Return the frames of a large send in a tunnel, each with both packets' lengths and checksums.

    Raises BadWqeError without a recognized tunnel, or if the send cannot be segmented.
    """
    try:
        outer, inner = _headers(parser, sq, wqe, header, whole=False)
        if inner is None:
            raise FrameError("large send of a tunneled packet has no recognized inner packet")
        return cut(header, payload, mss, outer, inner)
    except FrameError as error:
        raise BadWqeError(str(error)) from None


def _headers(
    parser: Parser, sq: Sq, wqe: Wqe, data: bytes, *, whole: bool
) -> tuple[Headers, Headers | None]:
    """Return the outer and inner headers; the inner ones are None without a recognized tunnel.

    The WQE's inner offsets (allow_swp) take precedence over parsing. Raises FrameError for
    malformed headers.
    """
    outer = parse(data, whole=whole)
    if sq.allows_swp:
        _, _, _, inner_l3, swp_flags = SWP.unpack_from(wqe.buf, DS)
        if inner_l3:
            kind = ETH_IPV6 if swp_flags & _SWP_INNER_L3_IPV6 else ETH_IPV4
            return outer, parse_ip(data, inner_l3 * _SWP_WORD, kind, whole)
    return outer, inner_of(outer, parser, whole)
