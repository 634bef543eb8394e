"""UMR: a work request that changes a memory key (PRM "UMR work request"; hw/umr.c, hw/wr.c).

    ctrl (16) | umr_ctrl (48) | mkey context (64) | translations, inline or by one data segment

The context segment has the layout of mkc; ``mkey_mask`` selects the fields that replace the key's.
Translations are written at ``xlt_offset`` if the request has that flag, otherwise at the start of
the list. The whole request is checked before the key changes. Only the index in ``imm`` names the
key: its variant byte is the new one in a registration, the old one in a window's bind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from emu.device.engine.events.error_syndromes import Cause
from emu.device.engine.mr.access import access
from emu.device.engine.mr.checks import bind_to_owner, is_for
from emu.device.engine.wqe import key_options
from emu.device.engine.wqe.key_options import BindError
from emu.device.engine.wqe.registry import Work, wqe_op
from emu.device.errors import CmdError
from emu.device.objects.domains import Pd
from emu.device.objects.eth.sq import Sq
from emu.device.objects.memory.key_context import KeyContext
from emu.device.objects.memory.mkey import OCTWORD, Mkey
from emu.device.objects.memory.pages import ADAPTER_PAGE_SHIFT as SMALLEST_PAGE
from emu.device.objects.memory.rights import LOCAL_READ
from emu.device.objects.memory.translations import CHUNK, DENSE_BYTES
from emu.device.objects.queues.qp import Qp
from emu.device.objects.queues.send_queue import BadWqeError, Wqe
from emu.device.rounds.costs import LOG_TRANSLATION_BYTES_PER_STEP
from layouts.enums.mkey import AccessMode, MkeyMask
from layouts.enums.qp import QpType
from layouts.enums.wqe import Opcode, UmrFlag
from layouts.memory.mkey import mkc
from layouts.rings.wqe import DATA, SET_PSV, UMR_CTRL

if TYPE_CHECKING:
    from emu.device.objects.ledger import Ledger
    from emu.device.objects.table import Table
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

_CTRL_AT: Final = 16
_MKC_AT: Final = 64
_MKC_BYTES: Final = mkc.size
_DATA_AT: Final = 128


SERVICES: Final = frozenset({QpType.RC, QpType.UC, QpType.XRC, QpType.UD, QpType.REG_UMR})
_REG_UMR: Final = QpType.REG_UMR
_MTT: Final = AccessMode.MTT
_PA: Final = AccessMode.PA


# Plain numbers: an operation on IntFlag members takes a microsecond.
_CHECK_QPN: Final = int(UmrFlag.CHECK_QPN)
_OFFSET: Final = int(UmrFlag.TRANSLATION_OFFSET)
_MUST_BE_FREE: Final = int(UmrFlag.MUST_BE_FREE)
_MUST_NOT_BE_FREE: Final = int(UmrFlag.MUST_NOT_BE_FREE)
_INLINE: Final = int(UmrFlag.INLINE)
_PD: Final = int(MkeyMask.PD)
_PAGE_SIZE: Final = int(MkeyMask.PAGE_SIZE)
_PAGE_SIZE_5: Final = int(MkeyMask.PAGE_SIZE_5)
_ANY_PAGE_SIZE: Final = _PAGE_SIZE | _PAGE_SIZE_5
_QPN: Final = int(MkeyMask.QPN)
_EN_SIGERR: Final = int(MkeyMask.EN_SIGERR)
_BSF_EN: Final = int(MkeyMask.BSF_EN)
_PHYSICAL: Final = (AccessMode.PA, AccessMode.MTT)
_KNOWN_MASK: Final = sum(map(int, MkeyMask))

_FIELDS: Final[Mapping[MkeyMask, tuple[str, ...]]] = {
    MkeyMask.LEN: ("len", "length64"),
    MkeyMask.START_ADDR: ("start_addr",),
    MkeyMask.EN_RINVAL: ("en_rinval",),
    MkeyMask.EN_SIGERR: ("expected_sigerr_count",),
    MkeyMask.BSF_EN: ("bsf_en",),
    MkeyMask.KEY: ("mkey_7_0",),
    MkeyMask.QPN: ("qpn",),
    MkeyMask.LR: ("lr",),
    MkeyMask.LW: ("lw",),
    MkeyMask.RR: ("rr",),
    MkeyMask.RW: ("rw",),
    MkeyMask.A: ("a",),
    MkeyMask.SMALL_FENCE: ("small_fence_on_rdma_read_response",),
    MkeyMask.RELAXED_ORDERING_WRITE: ("relaxed_ordering_write",),
    MkeyMask.FREE: ("free",),
    MkeyMask.RELAXED_ORDERING_READ: ("relaxed_ordering_read",),
}
"""Fields of mkc that each bit of the mask replaces, except page size and domain."""
_SIXTH_BIT: Final = 1 << 5


def _bits_by_flag() -> dict[int, int]:
    """Return the bits of mkc, as one big-endian number, that each bit of the mask replaces."""
    bits = {
        field.name: ((1 << field.width) - 1) << mkc.size * 8 - field.offset - field.width
        for field in mkc.fields
    }
    found = {int(flag): sum([bits[name] for name in names]) for flag, names in _FIELDS.items()}
    page_size = bits["log_page_size"]
    sixth = (page_size & -page_size) * _SIXTH_BIT
    found[_PAGE_SIZE], found[_PAGE_SIZE_5] = page_size & ~sixth, sixth
    return found


_BITS: Final = _bits_by_flag()
_SELECTED: Final[dict[int, int]] = {}
"""Bits of mkc by mask, of the first _MAX_MASKS masks that guests have used."""
_MAX_MASKS: Final = 256


def _selected(mask: int) -> int:
    """Return the bits of mkc that a mask replaces, and keep them for later requests."""
    selected = 0
    for flag, bits in _BITS.items():
        if mask & flag:
            selected |= bits
    if len(_SELECTED) < _MAX_MASKS:
        _SELECTED[mask] = selected
    return selected


@wqe_op(Opcode.UMR, SERVICES)
def umr(hca: Hca, qp: Qp, wqe: Wqe) -> Work:
    """Execute a queue pair's UMR by ``change_key``, and return None: there is nothing to send."""
    change_key(hca, qp, wqe)
    return None


def change_key(hca: Hca, qp: Qp | Sq, wqe: Wqe) -> None:
    """Check everything, then change the context, translations and BSFs of the named key.

    Raises BindError (MW_BIND_ERR), BadWqeError or AccessError; the key is then unchanged. The
    translations are charged to the budget, and a sparse key's list to the ledger.
    """
    if wqe.ds * OCTWORD < _DATA_AT:
        raise BadWqeError(f"ds {wqe.ds} is too short for a UMR")
    flags, octwords, low, mask, offset_high = UMR_CTRL.unpack_from(wqe.buf, _CTRL_AT)
    if mask & ~_KNOWN_MASK:
        raise BadWqeError(f"mkey_mask {mask & ~_KNOWN_MASK:#x} is not supported")
    mkey = _target(hca, qp, wqe, flags)
    context = _replaced(mkey.ctx, wqe.buf[_MKC_AT:_DATA_AT], mask)
    new = KeyContext(context)
    pd = _new_domain(hca.pds, qp, mkey, wqe) if mask & _PD else mkey.pd
    _check_range(mkey, new, mask)
    offset = (offset_high << 16 | low) if flags & _OFFSET else 0
    signature = mkey.signature
    bsf_octwords = 0 if flags & _OFFSET else low
    is_replaced = bsf_octwords and mkey.ctx.bsf_en  # DPDK sets no mask (mlx5_crypto_xts_qp_init)
    if mask & _BSF_EN or is_replaced:
        is_on = not mask & _BSF_EN or bool(mkc.view(context).bsf_en)
        bsf_at = _DATA_AT + octwords * OCTWORD
        signature = key_options.read(hca, mkey, wqe, is_on, bsf_at, bsf_octwords)
    xlt = _translations(hca, qp, wqe, flags, octwords * OCTWORD)
    xlt = _trimmed_to_capacity(mkey, offset * OCTWORD, xlt)
    if mkey.is_sparse:
        _check_ledger(hca.ledger, mkey, xlt)
    mkey.signature = signature
    hca.has_signatures |= signature is not None
    _apply(mkey, context, new, pd)
    if mask & _QPN:
        bind_to_owner(hca.qps, mkey)
    if signature is not None and mask & _EN_SIGERR:
        signature.rearm()
    if xlt:
        cost = mkey.write_translations(offset * OCTWORD, xlt)
        hca.budget.charge(cost >> LOG_TRANSLATION_BYTES_PER_STEP)
        if mkey.is_sparse:
            hca.mkeys.recharge(mkey)


def _is_drivers_own(queue: Qp | Sq) -> bool:
    """Return whether this is the driver's own queue pair, which changes keys of all domains."""
    return isinstance(queue, Qp) and queue.st is _REG_UMR


def _target(tables: ObjectTables, qp: Qp | Sq, wqe: Wqe, flags: int) -> Mkey:
    """Return the key that the request names, after checking that its state allows the request.

    Raises BindError: no such key, umr_en unset, physical addresses without ``fre``, another domain,
    or a free bit or owner that the flags forbid.
    """
    mkey = tables.mkeys.get(wqe.imm >> 8)
    if mkey is None or not mkey.umr_en:
        raise BindError(f"mkey {wqe.imm >> 8:#x} does not exist or does not allow UMR", Cause.KEY)
    if mkey.mode in _PHYSICAL and not qp.registers:
        # The list holds physical addresses. Kernels set this bit on all their own queue pairs
        # and on no others (hw/qp.c: _create_kernel_qp).
        raise BindError(f"{mkey!r} is {mkey.mode.name}; {qp!r} does not allow fast registration")
    if mkey.pd is not qp.pd and not _is_drivers_own(qp):
        raise BindError(f"{mkey!r} belongs to another domain")
    if flags & _MUST_BE_FREE and not mkey.free:
        raise BindError(f"{mkey!r} is not free")
    if flags & _MUST_NOT_BE_FREE and mkey.free:
        raise BindError(f"{mkey!r} is free", Cause.KEY)
    if flags & _CHECK_QPN:
        # libmlx5 invalidates by this, and binds windows of type 2 to no bytes (qp.c:
        # set_umr_control_seg). An unbound window is refused (rdma-unit-test, for ConnectX); a key
        # that any queue pair may use is accepted (rdma-core: test_mlx5_mkey.py).
        if mkey.free:
            raise BindError(f"{mkey!r} is free", Cause.KEY)
        if not is_for(tables.qps, mkey, qp.handle):
            raise BindError(f"{mkey!r} belongs to qp {mkey.qpn:#x}")
    return mkey


def _replaced(ctx: mkc, given: bytes, mask: int) -> bytes:
    """Return the context with the fields that ``mask`` selects from a request's; no domain."""
    selected = _SELECTED.get(mask)
    if selected is None:
        selected = _selected(mask)
    kept = int.from_bytes(ctx.buf[ctx.base : ctx.base + _MKC_BYTES], "big") & ~selected
    return (kept | int.from_bytes(given, "big") & selected).to_bytes(_MKC_BYTES, "big")


def _check_range(mkey: Mkey, new: KeyContext, mask: int) -> None:
    """Raise BindError for an inconsistent start, length or page size of the new context.

    A key's range may not wrap the 64-bit space, nor its pages be smaller than ADAPTER_PAGE_SHIFT.
    """
    if new.start + new.length > 1 << 64:
        raise BindError(f"{mkey!r} would wrap the address space: {new.start:#x}+{new.length:#x}")
    is_paged = mkey.mode is _MTT and (mask & _ANY_PAGE_SIZE or (new.length and not new.free))
    if is_paged and new.log_page_size < SMALLEST_PAGE:
        raise BindError(f"{mkey!r} would have pages smaller than {1 << SMALLEST_PAGE} bytes")


def _new_domain(pds: Table[Pd], qp: Qp | Sq, mkey: Mkey, wqe: Wqe) -> Pd:
    """Return the new domain; only the driver's own queue pair may move a key to another one.

    Raises BindError for any other move, and for an unknown PD.
    """
    number = KeyContext(wqe.buf, _MKC_AT).pd
    pd = pds.get(number)
    if pd is None or (not _is_drivers_own(qp) and pd is not mkey.pd):
        raise BindError(f"{mkey!r} cannot move to pd {number:#x}")
    return pd


@wqe_op(Opcode.SET_PSV, SERVICES)
def set_psv(hca: Hca, qp: Qp | Sq, wqe: Wqe) -> Work:
    """Set a PSV, the start value of signatures, and return None: ctrl, seg_set_psv.

    Raises BadWqeError for a short WQE, or a PSV that is not of the queue pair's domain.
    """
    if wqe.ds * OCTWORD < _CTRL_AT + SET_PSV.size:
        raise BadWqeError(f"ds {wqe.ds} is too short for a SET_PSV")
    number, _, transient_sig, ref_tag = SET_PSV.unpack_from(wqe.buf, _CTRL_AT)
    psv = hca.psvs.get(number)
    if psv is None or psv.pd is not qp.pd:
        raise BadWqeError(f"psv {number:#x} does not exist in the queue pair's domain")
    psv.transient_sig = transient_sig << 32 | ref_tag
    return None


def _translations(hca: Hca, qp: Qp | Sq, wqe: Wqe, flags: int, length: int) -> bytes:
    """Return the request's translation entries, inline or read from guest memory; b"" for none.

    Raises BadWqeError for inline entries beyond the WQE, and for a WQE too short for the data
    segment of a list that is not inline. Raises AccessError for the memory that the segment names.
    The driver's own queue pair may read through a key of any domain.
    """
    if not length:
        return b""
    if flags & _INLINE:
        if wqe.ds * OCTWORD < _DATA_AT + length:
            raise BadWqeError(f"{length} bytes of translations exceed the WQE")
        return wqe.buf[_DATA_AT : _DATA_AT + length]
    if wqe.ds * OCTWORD < _DATA_AT + DATA.size:
        raise BadWqeError("no data segment for the translations")
    _, lkey, address = DATA.unpack_from(wqe.buf, _DATA_AT)
    pd = qp.pd
    if _is_drivers_own(qp):
        source = hca.mkeys.get(lkey >> 8)
        pd = source.pd if source is not None else None
    return b"".join(access(hca, pd, qp.handle, lkey, (address, length, LOCAL_READ)))


def _trimmed_to_capacity(mkey: Mkey, start: int, xlt: bytes) -> bytes:
    """Return the entries without the padding beyond the key's capacity, which must be zeros.

    Raises BindError for other entries beyond it, for a start beyond it, and for a PA key.
    """
    space = mkey.xlt_capacity - start
    if xlt and (mkey.mode == _PA or space < 0):
        raise BindError(f"{mkey!r} has no translations at {start}", Cause.BOUNDS)
    if xlt[max(space, 0) :].strip(b"\0"):
        raise BindError(f"{len(xlt)} bytes of translations, {mkey!r} has space for {space}")
    return xlt[:space]


def _check_ledger(ledger: Ledger, mkey: Mkey, xlt: bytes) -> None:
    """Raise BindError if the host lacks memory for a large list without compression."""
    chunks = len(xlt) // (CHUNK * OCTWORD) + 2
    try:
        ledger.check(mkey.kind, chunks * DENSE_BYTES)
    except CmdError as error:
        raise BindError(f"{mkey!r}: {error}") from None


def _apply(mkey: Mkey, context: bytes, new: KeyContext, pd: Pd) -> None:
    """Replace the key's context, whose fields are ``new``, and move the key to ``pd``."""
    ctx = mkey.ctx
    ctx.buf[ctx.base : ctx.base + _MKC_BYTES] = context
    if pd is not mkey.pd:
        mkey.pd.refs -= 1
        pd.refs += 1
        mkey.pd, ctx.pd = pd, pd.handle
    mkey.decode(new)
