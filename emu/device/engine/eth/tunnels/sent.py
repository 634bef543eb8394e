"""Send requests whose packet has another one inside: checksums of both, and large sends.

The request asks for it by the inner bits of cs_flags. A large send leaves as the packets that it
stands for, as who needs frames could not cut a tunnel.

Source: PRM "Ethernet segment", "Software parsing"; core/en_tx.c: mlx5e_txwqe_build_eseg_csum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.objects.eth.sq import Sq
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.port.eth.headers import ETH_IPV4, ETH_IPV6, FrameError, Headers, parse, parse_ip
from emu.device.port.eth.tunnel import cut, inner_of, insert_both
from layouts.eth_enums import EthChecksum
from layouts.rings.eth_wqe import SWP
from layouts.rings.wqe import DS

if TYPE_CHECKING:
    from emu.device.state.hca import Hca

INNER: Final = int(EthChecksum.L3_INNER | EthChecksum.L4_INNER)
_ORDER: Final = (EthChecksum.L3, EthChecksum.L4, EthChecksum.L3_INNER, EthChecksum.L4_INNER)
_SWP_WORD: Final = 2
"""Offsets are in so many bytes."""
_SWP_INNER_L3_IPV6: Final = 1 << 0


def finished(hca: Hca, sq: Sq, wqe: Wqe, data: bytes, cs_flags: int) -> bytes:
    """The frame with the checksums that the request asks for.

    One in which the adapter finds no tunnel gets those of its own headers alone.
    """
    outer, inner = _headers(hca, sq, wqe, data, whole=True)
    outer_l3, outer_l4, inner_l3, inner_l4 = (bool(cs_flags & bit) for bit in _ORDER)
    if inner is None:
        inner_l3 = inner_l4 = False
        inner = outer
    return insert_both(outer, inner, (outer_l3, outer_l4, inner_l3, inner_l4))


def segments(hca: Hca, sq: Sq, wqe: Wqe, header: bytes, payload: bytes, mss: int) -> list[bytes]:
    """The frames of a large send. Raises BadWqeError for what is no tunnel, or cannot be cut."""
    try:
        outer, inner = _headers(hca, sq, wqe, header, whole=False)
        if inner is None:
            raise FrameError("large send of an inner packet, but the adapter finds none")
        return cut(header, payload, mss, outer, inner)
    except FrameError as error:
        raise BadWqeError(str(error)) from None


def _headers(
    hca: Hca, sq: Sq, wqe: Wqe, data: bytes, *, whole: bool
) -> tuple[Headers, Headers | None]:
    """Outer and inner headers; what the request says of the inner ones goes before."""
    outer = parse(data, whole=whole)
    if sq.ctx.allow_swp:
        _, _, _, inner_l3, swp_flags = SWP.unpack_from(wqe.buf, DS)
        if inner_l3:
            kind = ETH_IPV6 if swp_flags & _SWP_INNER_L3_IPV6 else ETH_IPV4
            return outer, parse_ip(data, inner_l3 * _SWP_WORD, kind, whole)
    return outer, inner_of(outer, hca.parser, whole)
