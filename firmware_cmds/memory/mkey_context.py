"""Context of CREATE_MKEY: the checks of a key's attributes (mlx5_ifc.h: mkc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.engine.mr.rights import LOCAL_WRITE, REMOTE_ATOMIC, REMOTE_WRITE
from emu.device.errors import CmdError
from emu.device.objects.memory.mkey import ANY_QPN
from emu.device.objects.memory.pages import ADAPTER_PAGE_SHIFT
from layouts.enums import AccessMode, Status

if TYPE_CHECKING:
    from emu.device.objects.memory.key_context import KeyContext
    from emu.device.objects.queues.qp import Qp
    from emu.device.objects.table import Table
    from emu.device.state.caps import Caps

MAX_LOG_PAGE_SIZE = 31
"""Largest value of the five-bit field: max_mkey_log_entity_size_mtt is not advertised (mlx5_ib.h:
get_max_log_entity_size_cap).
"""

# fmt: off
_MODES = frozenset(
    {
        AccessMode.PA, AccessMode.MTT, AccessMode.MEMIC, AccessMode.SW_ICM, AccessMode.KLMS,
        AccessMode.KSM,
    }
)
# fmt: on
_LISTS = (AccessMode.KLMS, AccessMode.KSM)


def check(qps: Table[Qp], caps: Caps, ctx: KeyContext) -> int:
    """Return the access mode of a context; refuse with BAD_PARAM_ERR one that no key can have.

    A live key with a qpn of no queue pair gets BAD_RES_ERR.
    """
    mode = ctx.mode
    if mode not in _MODES:
        raise CmdError(
            Status.BAD_PARAM_ERR, "access mode of the memory key not supported", f"{mode:#x}"
        )
    # Relaxed ordering is accepted: it permits the adapter an order that this one never uses.
    if ctx.ma_translation_mode:
        raise CmdError(
            Status.BAD_PARAM_ERR, "memory key option not supported", "ma_translation_mode"
        )
    if ctx.rights & (REMOTE_WRITE | REMOTE_ATOMIC) and not ctx.rights & LOCAL_WRITE:
        raise CmdError(
            Status.BAD_PARAM_ERR, "remote write or atomic without local write", f"{mode:#x}"
        )  # IBTA 10.6.3.1; include/rdma/ib_verbs.h: ib_check_mr_access
    if ctx.start + ctx.length > 1 << 64:
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "memory key goes beyond the end of the address space",
            f"{ctx.start:#x}+{ctx.length:#x}",
        )
    if ctx.crypto_en and (not caps.general.crypto or mode not in _LISTS):
        raise CmdError(Status.BAD_PARAM_ERR, "encryption is not supported for this access mode")
    if not ctx.free:
        _check_live(qps, ctx, mode)
    return mode


def _check_live(qps: Table[Qp], ctx: KeyContext, mode: int) -> None:
    """Check the fields that a free key gets later, by UMR.

    The driver's free keys have neither QPN nor page size. Raises BAD_RES_ERR for an unknown QPN,
    BAD_PARAM_ERR for a page size outside the range.
    """
    if ctx.qpn != ANY_QPN:
        qps.need(ctx.qpn)
    if mode != AccessMode.MTT or not (ctx.length or ctx.length64):
        return
    log_page_size = ctx.log_page_size
    if log_page_size < ADAPTER_PAGE_SHIFT:
        raise CmdError(
            Status.BAD_PARAM_ERR, "page size below the adapter's minimum", f"{1 << log_page_size}"
        )
    # A key over all addresses has pages of 2**61 bytes (odp.c: alloc_implicit_mr_null_mkey).
    if log_page_size > MAX_LOG_PAGE_SIZE and not ctx.length64:
        raise CmdError(
            Status.BAD_PARAM_ERR,
            "page size above the adapter's maximum",
            f"log_page_size {log_page_size}",
        )
