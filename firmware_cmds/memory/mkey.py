"""Memory keys and protection signatures (PRM "Memory keys"; hw/mr.c of mlx5_ib)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.cmdif.registry import command
from emu.device.engine.mr.checks import bind_to_owner
from emu.device.errors import BadParamError, CmdError
from emu.device.objects.memory.key_context import ANY_QPN, KeyContext
from emu.device.objects.memory.memic import Memic, MemicArea
from emu.device.objects.memory.mkey import OCTWORD, Mkey, translation_bytes
from emu.device.objects.memory.pages import ADAPTER_PAGE_SHIFT, low_bytes
from emu.device.objects.memory.psv import Psv
from emu.device.objects.memory.sw_icm import IcmMemory, SwIcm
from emu.device.objects.memory.translations import MTT_READ, MTT_WRITE, PageEntries
from emu.device.objects.memory.umem import Umem
from emu.device.objects.object import DRIVER_UID, holding
from emu.device.rounds.portions import Portions
from layouts.enums.cmd import Op, Status
from layouts.enums.mkey import AccessMode
from layouts.memory import mkey as layout

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.tables import ObjectTables

MAX_KSM_ENTRIES = 1 << 26
"""Entries that an implicit key needs with page tables of five levels (hw/odp.c:
mlx5_imr_ksm_entries).
"""
MAX_MTT_ENTRIES = 1 << 26
"""256 GiB in pages of 4 KiB."""

_PHYSICAL = (AccessMode.PA, AccessMode.MTT, AccessMode.MEMIC, AccessMode.SW_ICM)
_WITHOUT_LIST = (AccessMode.PA, AccessMode.MEMIC, AccessMode.SW_ICM)
_MTT, _KLMS, _MEMIC = AccessMode.MTT, AccessMode.KLMS, AccessMode.MEMIC
_SW_ICM = AccessMode.SW_ICM


_CREATE_BYTES: Final = layout.create_mkey_in.size
_GIVEN: Final = layout.create_mkey_in.packer(
    "memory_key_mkey_entry", "translations_octword_actual_size"
)


@command(Op.CREATE_MKEY)
def create_mkey(
    tables: ObjectTables, cmd: layout.create_mkey_in, out: layout.create_mkey_out
) -> Portions[None]:
    """Create a key over all addresses (PA), a list of pages or a list of other keys.

    The list may be shorter than the length that the key reserves: a key that is created free gets
    its entries later, by UMR. The ledger bounds what all keys reserve together.

    A process may only create keys over a umem (MTT) or lists of keys; others get BAD_PARAM_ERR. Too
    many entries get LIM_ERR, a short list BAD_INP_LEN_ERR.
    """
    is_over_umem, has_rights = bool(cmd.mkey_umem_valid), bool(cmd.pg_access)
    tables.mkeys.check_space()
    entry: bytes
    actual: int
    entry, actual = _GIVEN.unpack_from(cmd.buf)
    ctx = layout.mkc(bytearray(entry))
    decoded = KeyContext(entry)
    octwords, mode = decoded.octwords, decoded.mode
    decoded.check(tables.caps, tables.qps.need)
    # A user names its pages by a umem (devx.c: devx_handle_mkey_create), never by address.
    may_name_pages = tables.caller.uid == DRIVER_UID or (mode == _MTT and is_over_umem)
    if mode in _PHYSICAL and not may_name_pages:
        raise BadParamError("a user context may only create keys over a umem", f"mode {mode:#x}")
    pd = tables.pds.need(decoded.pd)
    umem = tables.umems.need(cmd.mkey_umem_id) if is_over_umem else None
    xlt, pages = _translations(tables, decoded, cmd.buf, actual * OCTWORD, is_over_umem), None
    if umem is not None:
        pages = PageEntries()
        with (
            holding(pd, umem),
            tables.ledger.at_work(translation_bytes(mode, octwords)),
        ):
            yield from _fill(pages, umem, cmd.mkey_umem_offset, ctx)
    memic = _memic(tables.memic, ctx) if mode == _MEMIC else None
    icm = _icm(tables.icm, ctx) if mode == _SW_ICM else None
    mkey = Mkey(
        ctx, pd, xlt, pg_access=is_over_umem or has_rights, umem=umem, pages=pages,
        memic=memic, icm=icm, decoded=decoded,
    )  # fmt: skip
    if decoded.qpn != ANY_QPN:
        bind_to_owner(tables.qps, mkey)
    out.mkey_index = tables.mkeys.add(mkey)


def _memic(area: MemicArea | None, ctx: layout.mkc) -> Memic:
    """Return the allocated range of device memory that contains the key's whole range.

    The key's start_addr is an offset in BAR 0 (hw/mr.c: mlx5_ib_reg_dm_mr). Raises BAD_PARAM_ERR
    for any other range, with free, length64 or umr_en, and without device memory.
    """
    owner = area.owner(ctx.start_addr, ctx.len) if area is not None else None
    if owner is None or not _is_fixed(ctx):
        raise BadParamError(
            "a MEMIC key must cover allocated device memory, without free, length64 and umr_en",
            f"{ctx.start_addr:#x}+{ctx.len:#x}",
        )  # fmt: skip
    return owner


def _icm(memory: IcmMemory | None, ctx: layout.mkc) -> SwIcm:
    """Return the allocated range of software ICM that contains the key's whole range.

    Raises BAD_PARAM_ERR for any other range, with free, length64 or umr_en, and without software
    ICM. Source: core/steering/dr_icm_pool.c.
    """
    owner = memory.owner(ctx.start_addr, ctx.len) if memory is not None else None
    if owner is None or not _is_fixed(ctx):
        raise BadParamError(
            "an SW_ICM key must cover allocated software ICM, without free, length64 and umr_en",
            f"{ctx.start_addr:#x}+{ctx.len:#x}",
        )  # fmt: skip
    return owner


def _is_fixed(ctx: layout.mkc) -> bool:
    """Return whether a key is without length64, free and umr_en: no UMR may change its range."""
    return not (ctx.length64 or ctx.free or ctx.umr_en)


def _translations(
    tables: ObjectTables, key: KeyContext, buf: bytes, actual: int, is_over_umem: bool
) -> bytes:
    """Return the list of ``actual`` bytes in the command, perhaps less than the key reserves.

    Return no bytes for a mode without a list, or a key over a umem. Raises LIM_ERR for too many
    entries or a full ledger, BAD_INP_LEN_ERR for a short input, BAD_PARAM_ERR for a list that does
    not fit.
    """
    mode, octwords = key.mode, key.octwords
    if mode in _WITHOUT_LIST:
        if octwords:
            raise BadParamError("a key of this mode takes no translations", f"{octwords}")
        return b""
    entries = octwords * 2 if mode == _MTT else octwords
    limit = _max_entries(tables.caps, mode)
    if entries > limit:
        raise CmdError(
            Status.LIM_ERR, "more entries than a memory key of this mode takes",
            f"mode {mode:#x}: {entries} > {limit}",
        )  # fmt: skip
    tables.ledger.check("mkey", translation_bytes(mode, octwords))
    if is_over_umem:
        if mode != _MTT:
            raise BadParamError("only a key of pages can lie over a umem", f"mode {mode:#x}")
        return b""
    given = buf[_CREATE_BYTES:]
    if actual > len(given):
        raise CmdError(
            Status.BAD_INP_LEN_ERR, "input is too short for its list", f"{len(given)} of {actual}"
        )
    if actual > octwords * OCTWORD:
        raise BadParamError("list of translations is longer than the key", f"{actual} bytes")
    return bytes(given[:actual])


def _max_entries(caps: Caps, mode: int) -> int:
    if mode == _KLMS:
        return 1 << int(caps.general.log_max_klm_list_size)
    return MAX_MTT_ENTRIES if mode == _MTT else MAX_KSM_ENTRIES


def _fill(pages: PageEntries, umem: Umem, offset: int, ctx: layout.mkc) -> Portions[None]:
    """Write entries for the umem from ``offset`` on.

    The key's pages may be smaller than the umem's. Raises BAD_PARAM_ERR for a page size that does
    not fit the umem, and for a range or key that is too short.
    """
    shift, memory = ctx.log_page_size, umem.memory
    if not ADAPTER_PAGE_SHIFT <= shift <= memory.shift:
        raise BadParamError("page size of the key does not fit its umem", f"{umem!r}")
    within = ctx.start_addr & (1 << shift) - 1
    is_inside = offset < memory.length and offset + ctx.len <= memory.length
    if not is_inside or memory.address(offset) & (1 << shift) - 1 != within:
        raise BadParamError("key leaves its umem", f"{offset:#x}+{ctx.len:#x}")
    rights = MTT_READ | (MTT_WRITE if umem.is_writable else 0)
    count = -(-(within + ctx.len) >> shift)
    if 8 * count > ctx.translations_octword_size * OCTWORD:
        raise BadParamError("key is too short for the pages of its umem", f"{count} pages")
    for share in memory.split(offset - within, count, shift):
        low_bytes(share)[:] = bytes((rights,)) * len(share)
        pages.write(pages.count, share)
        yield


@command(Op.QUERY_MKEY)
def query_mkey(tables: ObjectTables, cmd: layout.query_mkey_in, out: layout.query_mkey_out) -> None:
    """Return the context and the translation list, up to the output's space.

    The rest of the output is zeros.
    """
    mkey = tables.mkeys.need(cmd.mkey_index)
    out.memory_key_mkey_entry = bytes(mkey.ctx)
    at = layout.query_mkey_out.size - 2 * OCTWORD
    room = len(out.buf) - at
    out.buf[at:] = mkey.translations(room).ljust(room, b"\0")


@command(Op.DESTROY_MKEY)
def destroy_mkey(
    tables: ObjectTables, cmd: layout.destroy_mkey_in, out: layout.destroy_mkey_out
) -> None:
    """Destroy the key. Windows bound to it stay, and fail when they are used."""
    tables.mkeys.remove(cmd.mkey_index)


@command(Op.CREATE_PSV)
def create_psv(tables: ObjectTables, cmd: layout.create_psv_in, out: layout.create_psv_out) -> None:
    """Create one to four signature values.

    Refuse another number with BAD_PARAM_ERR.
    """
    if not 1 <= cmd.num_psv <= 4:
        raise BadParamError("num_psv is not 1 to 4", f"{cmd.num_psv}")
    pd = tables.pds.need(cmd.pd)
    if len(tables.psvs) + cmd.num_psv >= tables.psvs.limit:
        raise CmdError(Status.LIM_ERR, "out of psv handles")
    tables.ledger.check(Psv.kind, cmd.num_psv * Psv.BASE_BYTES)
    for number in range(cmd.num_psv):
        setattr(out, f"psv{number}_index", tables.psvs.add(Psv(pd)))


@command(Op.DESTROY_PSV)
def destroy_psv(
    tables: ObjectTables, cmd: layout.destroy_psv_in, out: layout.destroy_psv_out
) -> None:
    """Destroy one signature value."""
    tables.psvs.remove(cmd.psvn)
