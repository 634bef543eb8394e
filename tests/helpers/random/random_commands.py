"""Commands with random fields: often right, often wrong in one place, sometimes all wrong.

A field that names an object mostly names a live one of the right kind, so that a short run gets
far; else it names one that was freed, that never was, or that lies beyond the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from emu.device.engine.qp.transitions import TRANSITIONS
from emu.driver.command.words import pack64
from emu.driver.ethernet.rings import rq_fields, sq_fields
from layouts.enums.cmd import Op
from layouts.enums.hca import BootPages
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpType, RqType
from layouts.enums.regs import RegId
from layouts.enums.wq import RqState

LIMITS = {
    "log_max_pd": 2, "log_max_xrcd": 1, "log_max_transport_domain": 1, "log_max_cq": 2,
    "log_max_srq": 2, "log_max_mkey": 9, "log_max_qp": 7, "max_num_eqs": 3, "max_qp_cnt": 2,
    "log_max_mcg": 1, "max_qp_mcg": 2, "log_max_uctx": 2, "log_max_umem": 2, "log_max_rq": 2,
    "log_max_sq": 7,
    "log_max_tis": 2, "log_max_rqt": 2, "log_max_rqt_size": 2, "log_max_tir": 2,
}  # fmt: skip
"""Tables so small that a short run fills them."""

GROUP = st.sampled_from([b"\xff\x12" + bytes(13) + bytes([number]) for number in range(3)])
MASK = st.one_of(
    st.just(0), st.integers(0, 31).map(lambda bit: 1 << bit), st.integers(0, 0xFFFFFFFF)
)
SELDOM = st.sampled_from([0, 0, 0, 1])
VPORT = {"other_vport": SELDOM, "vport_number": SELDOM}
BAD_ADDRESS = st.sampled_from([0, 1, 0x1_0000_0008, 0x7000_0000_0000, (1 << 64) - 8])


@dataclass(frozen=True)
class Names:
    """A handle of an object in this table of the HCA."""

    table: str


PD, XRCD, TD, UAR, EQ, CQ, MKEY, QP, SRQ, COUNTER, PSV, UCTX, UMEM, RQ, TIS, RQT, TIR, SQ = map(
    Names,
    (
        "pds", "xrcds", "tds", "uars", "eqs", "cqs", "mkeys", "qps", "srqs", "counters", "psvs",
        "uctxs", "umems", "rqs", "tises", "rqts", "tirs", "sqs",
    ),
)  # fmt: skip

CREATES = {
    Op.ALLOC_PD: (PD, "pd"),
    Op.ALLOC_XRCD: (XRCD, "xrcd"),
    Op.ALLOC_TRANSPORT_DOMAIN: (TD, "transport_domain"),
    Op.ALLOC_UAR: (UAR, "uar"),
    Op.ALLOC_Q_COUNTER: (COUNTER, "counter_set_id"),
    Op.CREATE_MKEY: (MKEY, "mkey_index"),
    Op.CREATE_PSV: (PSV, "psv0_index"),
    Op.CREATE_EQ: (EQ, "eq_number"),
    Op.CREATE_CQ: (CQ, "cqn"),
    Op.CREATE_QP: (QP, "qpn"),
    Op.CREATE_RMP: (SRQ, "rmpn"),
    Op.CREATE_XRC_SRQ: (SRQ, "xrc_srqn"),
    Op.CREATE_SRQ: (SRQ, "srqn"),
    Op.CREATE_SQ: (SQ, "sqn"),
    Op.CREATE_RQ: (RQ, "rqn"),
    Op.CREATE_UCTX: (UCTX, "uid"),
    Op.CREATE_UMEM: (UMEM, "umem_id"),
    Op.CREATE_TIS: (TIS, "tisn"),
    Op.CREATE_RQT: (RQT, "rqtn"),
    Op.CREATE_TIR: (TIR, "tirn"),
}
"""What makes an object, and the field of the answer that names it."""

DESTROYS = {
    Op.DEALLOC_PD: (PD, "pd"),
    Op.DEALLOC_XRCD: (XRCD, "xrcd"),
    Op.DEALLOC_TRANSPORT_DOMAIN: (TD, "transport_domain"),
    Op.DEALLOC_UAR: (UAR, "uar"),
    Op.DEALLOC_Q_COUNTER: (COUNTER, "counter_set_id"),
    Op.DESTROY_MKEY: (MKEY, "mkey_index"),
    Op.DESTROY_PSV: (PSV, "psvn"),
    Op.DESTROY_EQ: (EQ, "eq_number"),
    Op.DESTROY_CQ: (CQ, "cqn"),
    Op.DESTROY_QP: (QP, "qpn"),
    Op.DESTROY_RMP: (SRQ, "rmpn"),
    Op.DESTROY_XRC_SRQ: (SRQ, "xrc_srqn"),
    Op.DESTROY_SRQ: (SRQ, "srqn"),
    Op.DESTROY_SQ: (SQ, "sqn"),
    Op.DESTROY_RQ: (RQ, "rqn"),
    Op.DESTROY_UCTX: (UCTX, "uid"),
    Op.DESTROY_UMEM: (UMEM, "umem_id"),
    Op.DESTROY_TIS: (TIS, "tisn"),
    Op.DESTROY_RQT: (RQT, "rqtn"),
    Op.DESTROY_TIR: (TIR, "tirn"),
}
"""What ends one, and the field of the command that names it."""

_PLAIN: dict[Op, dict[str, Any]] = {
    Op.QUERY_MKEY: {"mkey_index": MKEY},
    Op.QUERY_EQ: {"eq_number": EQ},
    Op.QUERY_CQ: {"cqn": CQ},
    Op.QUERY_QP: {"qpn": QP},
    Op.QUERY_RMP: {"rmpn": SRQ},
    Op.QUERY_XRC_SRQ: {"xrc_srqn": SRQ},
    Op.QUERY_SRQ: {"srqn": SRQ},
    Op.QUERY_SQ: {"sqn": SQ},
    Op.QUERY_RQ: {"rqn": RQ},
    Op.QUERY_TIS: {"tisn": TIS},
    Op.QUERY_RQT: {"rqtn": RQT, "out_extra": st.sampled_from([0, 4, 16])},
    Op.QUERY_TIR: {"tirn": TIR},
    Op._2ERR_QP: {"qpn": QP},
    Op._2RST_QP: {"qpn": QP},
    Op.ARM_XRC_SRQ: {"xrc_srqn": SRQ, "lwm": st.integers(0, 9)},
    Op.ARM_RQ: {"srq_number": SRQ, "lwm": st.integers(0, 9)},
    Op.CREATE_PSV: {"pd": PD, "num_psv": st.integers(0, 5)},
    Op.QUERY_Q_COUNTER: {"counter_set_id": COUNTER, "clear": SELDOM},
    Op.ATTACH_TO_MCG: {"qpn": QP, "multicast_gid": GROUP},
    Op.DETACH_FROM_MCG: {"qpn": QP, "multicast_gid": GROUP},
    Op.ENABLE_HCA: {"function_id": SELDOM},
    Op.INIT_HCA: {},
    Op.DISABLE_HCA: {},
    Op.SET_ISSI: {"current_issi": st.integers(0, 3)},
    Op.QUERY_PAGES: {"op_mod": st.sampled_from([*BootPages, 0, 9])},
    Op.QUERY_HCA_CAP: {"op_mod": st.integers(0, 0x50)},
    Op.QUERY_HCA_VPORT_CONTEXT: VPORT,
    Op.QUERY_NIC_VPORT_CONTEXT: VPORT
    | {"allowed_list_type": st.integers(0, 4), "out_extra": st.sampled_from([0, 8, 32])},
    Op.QUERY_VPORT_STATE: VPORT | {"op_mod": st.integers(0, 3)},
    Op.MODIFY_VPORT_STATE: VPORT | {"op_mod": SELDOM, "admin_state": st.integers(0, 3)},
    Op.QUERY_VPORT_COUNTER: VPORT | {"clear": SELDOM},
    Op.QUERY_HCA_VPORT_GID: {"gid_index": st.integers(0, 9), "out_extra": st.sampled_from([0, 16])},
    Op.QUERY_HCA_VPORT_PKEY: {
        "pkey_index": st.sampled_from([0, 127, 128, 0xFFFF]),
        "out_extra": st.sampled_from([0, 4, 512]),
    },
    Op.ALLOC_PD: {},
    Op.ALLOC_XRCD: {},
    Op.ALLOC_TRANSPORT_DOMAIN: {},
    Op.ALLOC_UAR: {},
    Op.ALLOC_Q_COUNTER: {},
    Op.CREATE_UCTX: {"uctx": SELDOM.map(lambda cap: {"cap": cap})},
    **{op: {field: kind} for op, (kind, field) in DESTROYS.items()},
}
"""Commands whose fields do not depend on each other."""


class Drawing:
    """Draws the fields of one command."""

    def __init__(self, draw, driver):
        self.draw = draw
        self.driver = driver

    def __call__(self, what):
        """A value of a strategy, or a handle."""
        return self.handle(what.table) if isinstance(what, Names) else self.draw(what)

    def handle(self, name):
        table = getattr(self.driver.bar.function.hca, name)
        live = sorted(item.handle for item in table)
        others = [table.first - 1, table.first + len(live), min(table.limit, 0xFF) or 1]
        return self.draw(st.sampled_from(live * 4 + others))

    def spoiled(self, context):
        """The context, one time in ten with a wild buffer geometry or record."""
        if self.draw(st.integers(0, 9)):
            return context
        field = self.draw(st.sampled_from(["dbr_addr", "page_offset", "log_page_size"]))
        wild = BAD_ADDRESS if field == "dbr_addr" else st.integers(0, 31)
        return context | {field: self.draw(wild)}


@st.composite
def commands(draw, driver):
    """An opcode and the fields to run it with."""
    op = draw(st.sampled_from([*_PLAIN, *_BUILT, *CREATES]))
    drawing = Drawing(draw, driver)
    if op in _PLAIN:
        fields = {name: drawing(what) for name, what in _PLAIN[op].items()}
    else:
        fields = _BUILT[op](drawing)
        if fields.get("extra") and draw(st.integers(0, 9)) == 0:
            fields["extra"] = fields["extra"][:-8] + draw(st.binary(min_size=8, max_size=8))
    if draw(st.integers(0, 3)) == 0:
        fields["_uid"] = drawing(UCTX)
    return op, fields


def _create_eq(draw):
    fields = draw.driver.eq_fields(
        log_size=draw(st.integers(0, 3)),
        events=draw(st.sets(st.integers(0, 40), max_size=4)),
        vector=draw(st.sampled_from([0, 5, 63, 64])),
    )
    fields["eq_context_entry"]["uar_page"] = draw(UAR)
    return fields


def _create_cq(draw):
    context = {"uar_page": draw(UAR), "cqe_sz": draw(st.sampled_from([0, 0, 0, 1, 2]))}
    fields = draw.driver.cq_fields(
        draw(EQ), log_size=draw(st.integers(0, 4)), **draw.spoiled(context)
    )
    return fields | {"cq_umem_valid": draw(SELDOM)} | _in_umem(draw, fields["cq_context"], "cq")


def _in_umem(draw, context, ring):
    """Where in user memory a ring and its doorbell record lie, when they do."""
    offsets = st.sampled_from([0, 8, 64, 4096, 1 << 40])
    if draw(SELDOM):
        context |= {"dbr_umem_valid": 1, "dbr_umem_id": draw(UMEM), "dbr_addr": draw(offsets)}
    return {f"{ring}_umem_id": draw(UMEM), f"{ring}_umem_offset": draw(offsets)}


def _create_umem(draw):
    pages = [draw.driver.queue + 4096 * draw(st.integers(0, 3)) for _ in range(2)]
    rights = draw(st.sampled_from([3, 3, 3, 1, 0]))
    umem = {
        "num_of_mtt": draw(st.sampled_from([2, 2, 2, 0, 3, 1 << 63])),
        "page_offset": draw(st.sampled_from([0, 0, 64, 4096])),
    }
    return {"umem": umem, "extra": pack64([page | rights for page in pages])}


def _modify_cq(draw):
    resize = draw(st.booleans())
    fields = draw.driver.cq_fields(draw(EQ), log_size=draw(st.integers(0, 4)))
    fields["cq_context"] |= {"cq_period": draw(st.integers(0, 9)), "cq_max_count": draw(SELDOM)}
    return fields | {
        "op_mod": int(resize),
        "cqn": draw(CQ),
        "modify_field_select_resize_field_select": draw(st.integers(0, 8)),
    }


def _create_qp(draw):
    context = {
        "st": draw(st.sampled_from([*QpType, QpType.RC, QpType.UC, QpType.UD])),
        "rq_type": draw(st.sampled_from([*RqType, RqType.RQ, RqType.SRQ])),
        "srqn_rmpn_xrqn": draw(SRQ),
        "xrcd": draw(XRCD),
        "uar_page": draw(UAR),
        "counter_set_id": draw(st.one_of(st.just(0), st.just(1), st.integers(0, 3))),
        "no_sq": draw(SELDOM),
    }
    fields = draw.driver.qp_fields(draw(PD), draw(CQ), **draw.spoiled(context))
    return fields | {"wq_umem_valid": draw(SELDOM)} | _in_umem(draw, fields["qpc"], "wq")


def _create_mkey(draw):
    context = {
        "pd": draw(PD),
        "access_mode_1_0": draw(st.sampled_from(AccessMode)) & 3,
        "translations_octword_size": draw(st.integers(0, 3)),
        "start_addr": draw(BAD_ADDRESS),
        "len": draw(BAD_ADDRESS),
        "lr": 1,
        "lw": 1,
        "qpn": draw(st.sampled_from([0xFFFFFF, 0xFFFFFF, 0xFFFFFF, 0])),
    }
    return {
        "memory_key_mkey_entry": context,
        "translations_octword_actual_size": draw(st.integers(0, 2)),
        "mkey_umem_valid": draw(SELDOM),
        "mkey_umem_id": draw(UMEM),
        "extra": bytes(16 * draw(st.integers(0, 3))),
    }


def _transition(draw):
    path = {
        "rlid": 1, "pkey_index": draw(st.sampled_from([0, 0, 1, 2, 128])), "ack_timeout": 3,
        "vhca_port_num": draw(st.sampled_from([1, 1, 1, 0, 2])), "fl": draw(SELDOM),
        "src_addr_index": draw(SELDOM), "rmac_31_0": 1, "rgid_rip": bytes(15) + b"\x01",
    }  # fmt: skip
    qpc = {
        "remote_qpn": draw(QP), "mtu": draw(st.integers(0, 5)), "log_msg_max": 30, "rre": 1,
        "rwe": 1, "counter_set_id": draw(SELDOM), "primary_address_path": path,
    }  # fmt: skip
    return {"qpn": draw(QP), "qpc": qpc, "opt_param_mask": draw(MASK)}


def _modify_rmp(draw):
    lwm = {"wq": {"lwm": draw(st.integers(0, 9))}}
    return {"rmpn": draw(SRQ), "bitmask": {"lwm": draw(st.integers(0, 1))}, "ctx": lwm}


def _create_tis(draw):
    return {"ctx": {"transport_domain": draw(TD), "tls_en": draw(SELDOM)}}


def _spoiled_wq(draw, **fields):
    wild = draw.spoiled(fields)
    return {{"log_page_size": "log_wq_pg_sz"}.get(name, name): wild[name] for name in wild}


def _create_sq(draw):
    context = {"tisn": draw(TIS), "wq": _spoiled_wq(draw, wq_umem_valid=draw(SELDOM))}
    return sq_fields(draw.driver, draw(PD), draw(CQ), log_size=2, **context)[0]


def _create_rq(draw):
    context = {"mem_rq_type": draw(SELDOM), "rmpn": draw(SRQ), "counter_set_id": draw(SELDOM)}
    wq = _spoiled_wq(draw, wq_type=draw(st.integers(0, 3)))
    return rq_fields(draw.driver, draw(PD), draw(CQ), log_size=2, wq=wq, **context)[0]


def _modify_sq(draw):
    state = {"state": draw(_STATE)}
    return {"sqn": draw(SQ), "sq_state": draw(_STATE), "ctx": state}


def _modify_rq(draw):
    ctx = {"state": draw(_STATE), "vsd": draw(SELDOM), "counter_set_id": draw(SELDOM)}
    mask = draw(st.sampled_from([0, 0, 2, 8, 10, 1]))
    return {"rqn": draw(RQ), "rq_state": draw(_STATE), "modify_bitmask": mask, "ctx": ctx}


def _modify_tis(draw):
    return {"tisn": draw(TIS), "bitmask": {"prio": draw(SELDOM)}, "ctx": {"prio": 6}}


def _rqtc(draw):
    rqns = [draw(RQ) for _ in range(draw(st.integers(1, 4)))]
    sizes = {"rqt_max_size": 4, "rqt_actual_size": len(rqns) + draw(SELDOM)}
    return sizes, b"".join(rqn.to_bytes(4, "big") for rqn in rqns)


def _create_rqt(draw):
    fields, extra = _rqtc(draw)
    return {"rqt_context": fields, "extra": extra}


def _modify_rqt(draw):
    fields, extra = _rqtc(draw)
    bitmask = {"rqn_list": draw(st.sampled_from([0, 1, 1]))}
    return {"rqtn": draw(RQT), "bitmask": bitmask, "ctx": fields, "extra": extra}


def _tirc(draw):
    return {
        "disp_type": draw(st.sampled_from([0, 1, 1, 2])), "inline_rqn": draw(RQ),
        "indirect_table": draw(RQT), "transport_domain": draw(TD),
        "rx_hash_fn": draw(st.integers(0, 3)), "self_lb_block": draw(st.integers(0, 3)),
        "rx_hash_field_selector_outer": {"selected_fields": draw(st.sampled_from([0, 3, 15, 64]))},
    }  # fmt: skip


def _create_tir(draw):
    return {"ctx": _tirc(draw)}


def _modify_tir(draw):
    bitmask = {"hash": draw(SELDOM), "self_lb_en": draw(SELDOM)}
    return {"tirn": draw(TIR), "bitmask": bitmask, "ctx": _tirc(draw)}


def _access_reg(draw):
    size = draw(st.sampled_from([0, 4, 16, 64, 128, 256]))
    rest = draw(st.sampled_from([bytes(size), b"\xff" * size, draw(st.binary(min_size=size))]))
    data = bytes(1) + draw(st.sampled_from([b"\0", b"\1", b"\2"])) + rest
    return {
        "op_mod": draw(st.integers(0, 2)),
        "register_id": draw(st.one_of(st.sampled_from(RegId), st.integers(0, 0xFFFF))),
        "extra": data[:size],
        "out_extra": size,
    }


def _modify_nic_vport(draw):
    chosen = st.sampled_from(["mtu", "promisc", "addresses_list", "permanent_address", "roce_en"])
    fields = draw(st.lists(chosen, max_size=2)) + ["node_guid"] * draw(SELDOM)
    entries = draw(st.lists(st.integers(0, 1 << 48), max_size=3))
    context = {
        "mtu": draw(st.integers(0, 0xFFFF)), "promisc_all": draw(st.integers(0, 1)),
        "roce_en": draw(SELDOM), "allowed_list_type": draw(st.integers(0, 3)),
        "allowed_list_size": len(entries) + draw(SELDOM),
        "permanent_address": {"mac_addr_47_32": draw(st.integers(0, 0xFFFF))},
    }  # fmt: skip
    return {
        "field_select": dict.fromkeys(fields, 1), "nic_vport_context": context,
        "extra": pack64(entries), "other_vport": draw(SELDOM),
    }  # fmt: skip


def _modify_vport(draw):
    bits = {"cap_mask1": draw(MASK), "cap_mask1_field_select": draw(MASK)}
    return {"hca_vport_context": bits, "other_vport": draw(SELDOM)}


def _manage_pages(draw):
    count = draw(st.integers(0, 3))
    page = draw.driver.queue + 4096 * draw(st.integers(0, 3))
    pages = b"".join((page + 4096 * number).to_bytes(8, "big") for number in range(count))
    return {
        "op_mod": draw(st.integers(0, 3)), "input_num_entries": draw(st.integers(0, 4)),
        "extra": pages, "out_extra": 8 * draw(st.integers(0, 4)),
    }  # fmt: skip


_STATE = st.sampled_from([*RqState, 2])
_MODIFIES = sorted(TRANSITIONS.keys() - {Op._2ERR_QP, Op._2RST_QP})
_BUILT = {
    Op.CREATE_EQ: _create_eq,
    Op.CREATE_CQ: _create_cq,
    Op.MODIFY_CQ: _modify_cq,
    Op.CREATE_QP: _create_qp,
    Op.CREATE_MKEY: _create_mkey,
    Op.CREATE_UMEM: _create_umem,
    Op.CREATE_RMP: lambda draw: draw.driver.rmp_fields(draw(PD)),
    Op.CREATE_SRQ: lambda draw: draw.driver.srq_fields(draw(PD), **draw.spoiled({})),
    Op.CREATE_XRC_SRQ: lambda draw: draw.driver.xrc_srq_fields(draw(PD), draw(XRCD), draw(CQ)),
    Op.CREATE_SQ: _create_sq,
    Op.CREATE_RQ: _create_rq,
    Op.MODIFY_SQ: _modify_sq,
    Op.MODIFY_RQ: _modify_rq,
    Op.MODIFY_RMP: _modify_rmp,
    Op.CREATE_TIS: _create_tis,
    Op.MODIFY_TIS: _modify_tis,
    Op.CREATE_RQT: _create_rqt,
    Op.MODIFY_RQT: _modify_rqt,
    Op.CREATE_TIR: _create_tir,
    Op.MODIFY_TIR: _modify_tir,
    Op.ACCESS_REG: _access_reg,
    Op.MODIFY_HCA_VPORT_CONTEXT: _modify_vport,
    Op.MODIFY_NIC_VPORT_CONTEXT: _modify_nic_vport,
    Op.MANAGE_PAGES: _manage_pages,
    **dict.fromkeys(_MODIFIES, _transition),
}
"""Commands whose fields belong together."""
