"""Work requests in words: the segments of a WQE, by opcode and transport service.

A UMR is shown with its changes by flag and field names; the context shows only the fields that its
mask selects. ``kind`` distinguishes the uses of a UMR: the driver registers, invalidates, binds a
window or moves translations, all with the same opcode (hw/wr.c, hw/umr.c; rdma-core's mlx5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntFlag
from typing import TYPE_CHECKING, Any

from emu.device.trace import decode
from layouts.enums.mkey import AccessMode, MkeyMask
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode, UmrFlag
from layouts.memory.mkey import mkc
from layouts.prm import Prm
from layouts.rings import wqe as rings
from layouts.rings.eth_wqe import INLINE_HDR_START, INSERT_VLAN, wqe_eth_seg
from layouts.rings.wqe import DS, EXTENDED_ATOMIC, INLINE, INLINE_LENGTH, REPEAT_BLOCK

if TYPE_CHECKING:
    from emu.device.objects.queues.send_queue import Wqe

_RDMA = (rings.wqe_raddr_seg,)
_SEGMENTS: Mapping[int, tuple[type[Prm], ...]] = {
    Opcode.RDMA_WRITE: _RDMA,
    Opcode.RDMA_WRITE_IMM: _RDMA,
    Opcode.RDMA_READ: _RDMA,
    Opcode.MMO: (rings.mmo_metadata_seg,),
    Opcode.ATOMIC_CS: (rings.wqe_raddr_seg, rings.wqe_atomic_seg),
    Opcode.ATOMIC_FA: (rings.wqe_raddr_seg, rings.wqe_atomic_seg),
    Opcode.ATOMIC_MASKED_CS: (rings.wqe_raddr_seg, rings.wqe_masked_atomic_seg),
    Opcode.ATOMIC_MASKED_FA: (rings.wqe_raddr_seg, rings.wqe_masked_fa_seg),
}
"""Segments between the control segment and the data."""

_OF_4_BYTES: Mapping[int, tuple[type[Prm], ...]] = {
    Opcode.ATOMIC_MASKED_CS: (rings.wqe_raddr_seg, rings.wqe_masked_cs4_seg),
    Opcode.ATOMIC_MASKED_FA: (rings.wqe_raddr_seg, rings.wqe_masked_fa4_seg),
}
"""Segments of 4-byte atomics, which opmod selects."""

_WITH_VECTOR = (QpType.UD, QpType.QP0, QpType.QP1, QpType.DCI)
_EXTENDED_AV = 1 << 31
_BASE_AV_BYTES = 16
_PAD_BYTES = 16
"""Padding between the address vector and the Ethernet segment (mlx5_wqe_eth_pad)."""
_FENCE_SHIFT = 5
_SOLICITED, _SIGNALED = 1 << 1, 0b10 << 2
_MAX_SEGMENTS = 32

_MKC_FIELDS: Mapping[MkeyMask, tuple[str, ...]] = {
    MkeyMask.LEN: ("len", "length64"),
    MkeyMask.PAGE_SIZE: ("log_page_size",),
    MkeyMask.PAGE_SIZE_5: ("log_page_size",),
    MkeyMask.PD: ("pd",),
    MkeyMask.EN_SIGERR: ("expected_sigerr_count",),
    MkeyMask.KEY: ("mkey_7_0",),
    MkeyMask.SMALL_FENCE: ("small_fence_on_rdma_read_response",),
}
"""Fields of the context that a bit selects, for fields without the bit's name."""


def kind(wqe: Wqe) -> str:
    """Return the purpose of a request: the name of its opcode, or the use of a UMR.

    A UMR is register, bind, layout, translations, invalidate or change, by its mkey mask. An
    unknown opcode is named by its number.
    """
    present = min(wqe.ds * DS, len(wqe.buf))
    if wqe.opcode != Opcode.UMR or present < DS + rings.wqe_umr_ctrl_seg.size + mkc.size:
        return _opcode(wqe)
    mask = rings.wqe_umr_ctrl_seg.view(wqe.buf, DS).mkey_mask
    if mask & MkeyMask.FREE and mkc.view(wqe.buf, DS + rings.wqe_umr_ctrl_seg.size).free:
        return "UMR invalidate"
    if not mask:
        return "UMR translations"
    if mask & MkeyMask.LEN and not mask & MkeyMask.START_ADDR:
        return "UMR layout"
    if mask & MkeyMask.LEN:
        return "UMR register" if mask & MkeyMask.PAGE_SIZE else "UMR bind"
    return "UMR change"


def request(
    wqe: Wqe, st: QpType | None, mode: AccessMode | None, *, is_ipoib: bool = False
) -> dict[str, Any]:
    """Return the keys of a wqe event from ``index`` on.

    ``st`` is the transport service, None for a request of an Ethernet send queue. ``mode`` is the
    access mode of the key that a UMR changes, if any. ``is_ipoib``: a datagram with an Ethernet
    segment. Segments that the WQE is too short for are left out.
    """
    shown: dict[str, Any] = {"index": wqe.index, "op": kind(wqe), "ds": wqe.ds}
    if flags := _control_flags(wqe.fm_ce_se):
        shown["flags"] = flags
    if wqe.imm:
        shown["imm"] = wqe.imm
    body = wqe.buf[: wqe.ds * DS]
    if wqe.opcode == Opcode.UMR:
        shown |= _umr(body, mode)
    elif wqe.opcode == Opcode.SET_PSV:
        shown |= _segment(rings.seg_set_psv, body, DS)
    elif wqe.opcode in Opcode._value2member_map_ and wqe.opcode != Opcode.NOP:
        if st is None:
            shown |= _frame(body, DS)
        else:
            shown |= _message(wqe.opcode, wqe.opmod, body, st, is_ipoib)
    return shown


def _opcode(wqe: Wqe) -> str:
    known = wqe.opcode in Opcode._value2member_map_
    return Opcode(wqe.opcode).name if known else f"opcode {wqe.opcode:#x}"


def _control_flags(bits: int) -> str:
    """Return the names of the control segment's flags, joined by "|"; empty without any.

    The names are SIGNALED, SOLICITED and FENCE_n, with the fence's number. Other bits of ``bits``
    (fm_ce_se) are left out.
    """
    names = [
        name for name, bit in (("SIGNALED", _SIGNALED), ("SOLICITED", _SOLICITED)) if bits & bit
    ]
    if fence := bits >> _FENCE_SHIFT:
        names.append(f"FENCE_{fence}")
    return "|".join(names)


def _names(enum: type[IntFlag], bits: int) -> str:
    known = [flag for flag in enum if flag & bits]
    rest = bits & ~sum(map(int, known))
    return "|".join([flag.name or "" for flag in known] + ([f"{rest:#x}"] if rest else []))


def _segment(layout: type[Prm], body: bytes, at: int) -> dict[str, Any]:
    """Return a segment by its name, without the driver's prefix.

    Empty where the WQE is too short.
    """
    if at + layout.size > len(body):
        return {}
    return {layout.__name__.removeprefix("wqe_"): decode.fields(layout.view(body, at))}


def _message(opcode: int, opmod: int, body: bytes, st: QpType, is_ipoib: bool) -> dict[str, Any]:
    """Return the segments of a request of a queue pair, and its data, by service and opcode."""
    shown: dict[str, Any] = {}
    at = DS
    if st is QpType.XRC:
        shown |= _segment(rings.wqe_xrc_seg, body, at)
        at += rings.wqe_xrc_seg.size
    if st in _WITH_VECTOR:
        base = body[at : at + _BASE_AV_BYTES].ljust(rings.av.size, b"\0")
        is_extended = rings.av.view(base).dqp_dct & _EXTENDED_AV
        shown |= _segment(rings.av, body if is_extended else body[:at] + base, at)
        at += rings.av.size if is_extended else _BASE_AV_BYTES
    if is_ipoib:
        return shown | _frame(body, at + _PAD_BYTES)
    of_opmod = _OF_4_BYTES if opmod == EXTENDED_ATOMIC else _SEGMENTS
    for layout in of_opmod.get(opcode) or _SEGMENTS.get(opcode, ()):
        shown |= _segment(layout, body, at)
        at += layout.size
    if data := list(_data(body, at)):
        shown["data"] = data
    return shown


def _frame(body: bytes, at: int) -> dict[str, Any]:
    """Return the Ethernet segment; the length of the inline headers; the data.

    Empty where the WQE is too short for the segment.
    """
    shown = _segment(wqe_eth_seg, body, at)
    if not shown:
        return {}
    at, trailer = at + wqe_eth_seg.size, wqe_eth_seg.view(body, at).trailer
    if trailer and not trailer & INSERT_VLAN:
        size = trailer >> 16
        shown["headers"] = {"inline": size}
        at += max(size - (wqe_eth_seg.size - INLINE_HDR_START), 0) + DS - 1 & ~(DS - 1)
    if data := list(_data(body, at)):
        shown["data"] = data
    return shown


def _data(body: bytes, at: int) -> Iterator[dict[str, Any]]:
    """Yield the data segments from byte ``at`` on, at most _MAX_SEGMENTS.

    Of inline data the length.
    """
    for _ in range(_MAX_SEGMENTS):
        if at + DS > len(body):
            return
        segment = rings.wqe_data_seg.view(body, at)
        if segment.byte_count & INLINE:
            length = segment.byte_count & INLINE_LENGTH
            yield {"inline": length}
            at += (4 + length + DS - 1) & ~(DS - 1)
        else:
            yield decode.fields(segment)
            at += DS


def _umr(body: bytes, mode: AccessMode | None) -> dict[str, Any]:
    """Return a UMR's flags and mask, the mkey context, and the list of translations or BSF.

    Empty where the WQE is too short.
    """
    at = DS
    if at + rings.wqe_umr_ctrl_seg.size + mkc.size > len(body):
        return {}
    ctrl = rings.wqe_umr_ctrl_seg.view(body, at)
    has_offset = bool(ctrl.flags & UmrFlag.TRANSLATION_OFFSET)
    umr: dict[str, Any] = {
        "flags": _names(UmrFlag, ctrl.flags),
        "mask": _names(MkeyMask, ctrl.mkey_mask),
    }
    if ctrl.xlt_octowords:
        umr["xlt_octowords"] = ctrl.xlt_octowords
    if has_offset:
        umr["xlt_offset"] = ctrl.xlt_offset_47_16 << 16 | ctrl.xlt_offset
    at += rings.wqe_umr_ctrl_seg.size
    shown = {"umr": umr, "mkc": _context(mkc.view(body, at), ctrl.mkey_mask)}
    at += mkc.size
    if not ctrl.flags & UmrFlag.INLINE:
        return shown | ({"list": list(_data(body[: at + DS], at))} if ctrl.xlt_octowords else {})
    end = at + ctrl.xlt_octowords * DS
    if entries := _entries(body[at:end], mode):
        shown["list"] = entries
    if not has_offset and ctrl.xlt_offset and end + rings.bsf.size <= len(body):
        shown["bsf"] = decode.fields(rings.bsf.view(body, end))
    return shown


def _context(ctx: object, mask: int) -> dict[str, Any]:
    """Return the fields that the mask selects, including zero ones."""
    names = (_MKC_FIELDS.get(flag, (str(flag.name).lower(),)) for flag in MkeyMask if flag & mask)
    return {name: getattr(ctx, name) for group in names for name in group}


def _entries(xlt: bytes, mode: AccessMode | None) -> Any:
    """Return the translations in their shown form, without the padding after them.

    The entries are MTTs for access mode MTT, else KLMs.
    """
    layout: type[Prm] = rings.mtt if mode is AccessMode.MTT else rings.klm
    used = len(xlt.rstrip(b"\0"))
    count = min(-(-used // layout.size), len(xlt) // layout.size)
    return decode.listed(count, lambda at: _entry(layout, xlt, at * layout.size))


def _entry(layout: type[Prm], xlt: bytes, at: int) -> dict[str, Any]:
    is_repeat = layout is rings.klm and rings.klm.view(xlt, at).key == REPEAT_BLOCK
    return decode.fields((rings.stride_block_ctrl_seg if is_repeat else layout).view(xlt, at))
