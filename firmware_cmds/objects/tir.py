"""Transport interface receive (PRM "Transport interface receive"; core/en/tir.c, qp.c of mlx5_ib).

A TIR forwards to one RQ or, by a hash of header fields, to an RQ of an RQT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.device.cmdif.registry import command
from emu.device.engine.eth.sessions import flush_all
from emu.device.engine.eth.steering.inside import InnerHasher
from emu.device.errors import BadParamError
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address, parts
from emu.device.objects.eth.tir import FlowHash, Rqt, Tir
from emu.device.port.eth.toeplitz import Hasher
from firmware_cmds.options import first_set
from layouts.enums.cmd import Op
from layouts.enums.tir import DispType, HashField, L3ProtType, L4ProtType, PacketMerge, RxHashFn
from layouts.objects import tir as layout

if TYPE_CHECKING:
    from emu.device.state.caps import Caps
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

_NOT_BUILT = ("tls_en",)
"""Fields of tirc whose features have capability bits, none of which is set."""
_HASH = (
    "rx_hash_symmetric", "rx_hash_fn", "rx_hash_toeplitz_key", "rx_hash_field_selector_outer",
    "rx_hash_field_selector_inner",
)  # fmt: skip
"""Fields that the bit ``hash`` of MODIFY_TIR selects."""
_MERGING = ("packet_merge_mask", "lro_timeout_period_usecs", "lro_max_ip_payload_size")
"""Fields that the bit ``packet_merge`` selects."""
_MODIFIABLE = layout.modify_tir_bitmask.new(self_lb_en=1, hash=1, packet_merge=1)


def _check_options(caps: Caps, ctx: layout.tirc) -> None:
    """Refuse with BAD_PARAM_ERR options, merges or hash fields that are not supported."""
    if name := first_set(ctx, _NOT_BUILT):
        raise BadParamError("TIR option not supported", name)
    if ctx.tunneled_offload_en and not caps.ethernet.tunnel_stateless_vxlan:
        raise BadParamError("TIR option not supported", "tunneled_offload_en")
    known = sum(PacketMerge) if caps.ethernet.lro_cap else 0
    if unknown := ctx.packet_merge_mask & ~known:
        raise BadParamError("packet_merge_mask not supported", f"{unknown:#x}")
    if ctx.rx_hash_fn not in RxHashFn._value2member_map_:
        raise BadParamError("rx_hash_fn not supported", f"{ctx.rx_hash_fn}")
    for selector in (ctx.rx_hash_field_selector_outer, ctx.rx_hash_field_selector_inner):
        if unknown := selector.selected_fields & ~sum(HashField):
            raise BadParamError("unknown fields to hash", f"{unknown:#x}")


def _hasher(ctx: layout.tirc) -> FlowHash | None:
    """Return the TIR's hash, by inner headers if it selects some of these; None for no hash."""
    inner, outer = ctx.rx_hash_field_selector_inner, ctx.rx_hash_field_selector_outer
    chosen = inner if inner.selected_fields else outer
    if ctx.rx_hash_fn == RxHashFn.NONE or not chosen.selected_fields:
        return None
    hasher = Hasher(
        RxHashFn(ctx.rx_hash_fn),
        ctx.rx_hash_toeplitz_key,
        L3ProtType(chosen.l3_prot_type),
        L4ProtType(chosen.l4_prot_type),
        HashField(chosen.selected_fields),
        bool(ctx.rx_hash_symmetric),
    )
    return InnerHasher(hasher) if chosen is inner else hasher


@command(Op.CREATE_TIR)
def create_tir(tables: ObjectTables, cmd: layout.create_tir_in, out: layout.create_tir_out) -> None:
    """Create a destination of flow table entries, for the RQ or RQT that it names.

    transport_domain 0 means none: a program that creates its own TIR leaves it out (rdma-core's
    tests/test_mlx5_dr.py: test_root_dest_tir). Refuse an unsupported option or disp_type with
    BAD_PARAM_ERR. With software steering the answer has the ICM address.
    """
    ctx = cmd.ctx.copy()
    _check_options(tables.caps, ctx)
    td = tables.tds.need(ctx.transport_domain) if ctx.transport_domain else None
    if ctx.disp_type == DispType.DIRECT:
        tir = Tir(ctx, td, tables.rqs.need(ctx.inline_rqn))
    elif ctx.disp_type == DispType.INDIRECT:
        tir = Tir(ctx, td, tables.rqts.need(ctx.indirect_table), _hasher(ctx))
    else:
        raise BadParamError("disp_type not supported", f"{ctx.disp_type}")
    out.tirn = tables.tirs.add(tir)
    if tables.icm is not None:
        out.assign(parts(icm_address(IcmKind.TIR, out.tirn)))


@command(Op.MODIFY_TIR)
def modify_tir(hca: Hca, cmd: layout.modify_tir_in, out: layout.modify_tir_out) -> None:
    """Change hash, loopback and merging from the next packet on.

    Source: core/en/rss.c, core/en_common.c, core/en/tir.c. Held packets of merge sessions are
    delivered first. Refuse an unknown bit or option with BAD_PARAM_ERR.
    """
    tir = hca.tirs.subject(cmd.tirn)
    if any(given & ~known for given, known in zip(bytes(cmd.bitmask), bytes(_MODIFIABLE))):
        raise BadParamError("TIR field cannot be modified", bytes(cmd.bitmask).hex())
    changed = tir.ctx.copy()
    if cmd.bitmask.hash:
        changed.assign({name: getattr(cmd.ctx, name) for name in _HASH})
    if cmd.bitmask.packet_merge:
        changed.assign({name: getattr(cmd.ctx, name) for name in _MERGING})
    if cmd.bitmask.self_lb_en:
        changed.self_lb_block = cmd.ctx.self_lb_block
    _check_options(hca.caps, changed)
    hasher = tir.hasher
    if cmd.bitmask.hash:
        hasher = _hasher(changed) if isinstance(tir.target, Rqt) else None
    more = Tir.HASHER_BYTES * ((hasher is not None) - (tir.hasher is not None))

    def apply() -> None:
        flush_all(hca)  # held packets belong to the old settings
        tir.change(changed, hasher)
        if cmd.bitmask.self_lb_en:
            tir.refresh()

    hca.tirs.change(tir, apply, more)


@command(Op.QUERY_TIR)
def query_tir(tables: ObjectTables, cmd: layout.query_tir_in, out: layout.query_tir_out) -> None:
    """Return the current context."""
    out.tir_context = bytes(tables.tirs.need(cmd.tirn).ctx)


@command(Op.DESTROY_TIR)
def destroy_tir(hca: Hca, cmd: layout.destroy_tir_in, out: layout.destroy_tir_out) -> None:
    """Destroy the TIR; refused while a flow table entry forwards to it.

    Deliver the packets of merge sessions.
    """
    hca.tirs.remove(cmd.tirn)
    flush_all(hca)
