"""Transport domains, TISes, RQTs and TIRs, created as by mlx5e and mlx5_ib."""

from __future__ import annotations

from collections.abc import Sequence

from emu.driver.command.answer import expect
from emu.driver.command.driver import Driver, Fields
from emu.driver.ethernet.rings import rq_fields
from layouts.enums.cmd import Op, Status
from layouts.enums.regs import RegId
from layouts.enums.tir import DispType, HashField, L3ProtType, L4ProtType, RxHashFn
from layouts.objects.rqt import rq_num, rqtc
from layouts.regs import reg

KEY = bytes.fromhex(
    "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa"
)
"""Toeplitz key of Microsoft's examples."""


MTU_OVERHEAD = 22
"""Bytes by which the port's MTU exceeds the interface's: Ethernet header, VLAN tag, frame check
sequence (core/en.h: MLX5E_ETH_HARD_MTU).
"""


def set_mtu(driver: Driver, mtu: int) -> None:
    """Set the interface's MTU, in bytes (core/en_main.c: mlx5e_set_mtu).

    Port and vPort get ``mtu`` plus 22. Raises DriverError if either is refused.
    """
    wanted = reg.pmtu_reg.new(local_port=1, admin_mtu=mtu + MTU_OVERHEAD)
    answer = driver.write_register(RegId.PMTU, bytes(wanted))
    expect(answer.status == Status.OK, f"{RegId.PMTU!r}: {answer.status!r}")
    driver.must(
        Op.MODIFY_NIC_VPORT_CONTEXT,
        field_select={"mtu": 1},
        nic_vport_context={"mtu": mtu + MTU_OVERHEAD},
    )


def alloc_td(driver: Driver) -> int:
    """Allocate a transport domain; return its number."""
    return int(driver.must(Op.ALLOC_TRANSPORT_DOMAIN).transport_domain)


def create_tis(driver: Driver, td: int, **context: object) -> int:
    """Create a TIS; return its number (en_common.c: mlx5e_create_tises)."""
    return int(driver.must(Op.CREATE_TIS, ctx={"transport_domain": td, **context}).tisn)


def create_rq(driver: Driver) -> int:
    """Create an RQ that stays in RST; return its number (en_main.c: mlx5e_alloc_drop_rq).

    EQ and CQ of its own are created, too. Raises DriverCommandError if refused.
    """
    cqn = driver.create_cq(driver.create_eq(), log_size=0)
    fields, _ = rq_fields(driver, 0, cqn, log_size=0)
    return int(driver.must(Op.CREATE_RQ, **fields).rqn)


def rqt_context(
    rqns: Sequence[int], limit: int | None = None, **context: object
) -> tuple[Fields, bytes]:
    """Return the fields of CREATE_RQT and MODIFY_RQT, and the bytes behind them.

    ``limit`` is rqt_max_size, by default the number of RQs.
    """
    fields = {"rqt_max_size": limit or len(rqns), "rqt_actual_size": len(rqns), **context}
    return fields, b"".join(bytes(rq_num.new(rq_num=rqn)) for rqn in rqns)


def create_rqt(
    driver: Driver, rqns: Sequence[int], limit: int | None = None, **context: object
) -> int:
    """Create an RQT for up to ``limit`` RQs; return its number (en/rqt.c: mlx5e_rqt_init).

    Raises DriverCommandError if refused.
    """
    fields, extra = rqt_context(rqns, limit, **context)
    return int(driver.must(Op.CREATE_RQT, rqt_context=fields, extra=extra).rqtn)


def modify_rqt(driver: Driver, rqtn: int, rqns: Sequence[int]) -> None:
    """Replace the RQs of an RQT (en/rqt.c: mlx5e_rqt_redirect).

    Raises DriverCommandError if refused, for example above rqt_max_size.
    """
    fields, extra = rqt_context(rqns)
    del fields["rqt_max_size"]
    driver.must(Op.MODIFY_RQT, rqtn=rqtn, bitmask={"rqn_list": 1}, ctx=fields, extra=extra)


def query_rqt(driver: Driver, rqtn: int, room: int = 256) -> tuple[int, int, list[int]]:
    """Return (rqt_max_size, rqt_actual_size, RQ numbers) of an RQT by QUERY_RQT.

    At most ``room`` numbers are returned.
    """
    answer = driver.must(Op.QUERY_RQT, rqtn=rqtn, out_extra=4 * room)
    context = rqtc.view(answer.raw, len(answer.raw) - rqtc.size - 4 * room)
    size = context.rqt_actual_size
    return context.rqt_max_size, size, [context.rq_num[n].rq_num for n in range(min(size, room))]


def rss(version: int = 4, protocol: str = "TCP", fields: int = 0xF, **context: object) -> Fields:
    """Return a TIR's hash fields for these packets (en/tir.c: mlx5e_tir_builder_build_rss).

    ``fields`` are bits of HashField; by default addresses and ports.
    """
    return {
        "rx_hash_fn": RxHashFn.TOEPLITZ, "rx_hash_symmetric": 1, "rx_hash_toeplitz_key": KEY,
        "rx_hash_field_selector_outer": {
            "l3_prot_type": L3ProtType.IPV6 if version == 6 else L3ProtType.IPV4,
            "l4_prot_type": L4ProtType[protocol], "selected_fields": HashField(fields),
        },
    } | context  # fmt: skip


def create_direct_tir(driver: Driver, td: int, rqn: int, **context: object) -> int:
    """Create a TIR to one RQ; return its number (qp.c: create_raw_packet_qp_tir)."""
    fields = {"disp_type": DispType.DIRECT, "transport_domain": td, "inline_rqn": rqn, **context}
    return int(driver.must(Op.CREATE_TIR, ctx=fields).tirn)


def create_indirect_tir(driver: Driver, td: int, rqtn: int, **context: object) -> int:
    """Create a TIR to an RQT; return its number (en/tir.c: mlx5e_tir_builder_build_rqt).

    Without hash fields (:func:`rss`) it does not hash. Raises DriverCommandError if refused.
    """
    fields = {
        "disp_type": DispType.INDIRECT, "transport_domain": td, "indirect_table": rqtn, **context,
    }  # fmt: skip
    return int(driver.must(Op.CREATE_TIR, ctx=fields).tirn)
