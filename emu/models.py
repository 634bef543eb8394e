"""The adapters that can be emulated: identity, firmware, link and capabilities of each.

A model says what the device is and how much it can do; every bit set here is one that the emulator
builds. Device ids are those of core/main.c: mlx5_core_pci_table, capability names those of
mlx5_ifc.h. PCI ids and generations are real, serial numbers, board ids and firmware builds are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Any

from emu.pci import LinkSpeed, PciIdentity
from layouts.enums import CapType

ATOMIC_CMP_SWAP, ATOMIC_FETCH_ADD = 1 << 0, 1 << 1
"""Bits of atomic_operations (include/linux/mlx5/driver.h: MLX5_ATOMIC_OPS_*)."""

BOARD_ID_BYTES = 16
"""Room for the board id (vsd_contd_psid of QUERY_ADAPTER)."""

Capabilities = Mapping[str, Any]
"""Fields of one capability group by PRM name; a nested structure is a mapping."""


class IbSpeed(IntEnum):
    """InfiniBand link speeds, as PTYS ib_proto_oper encodes them."""

    EDR = 32
    HDR = 64
    NDR = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One adapter, as a physical or a virtual function.

    The capability groups hold MAX values; a field that is not named is 0. A group with a gate in
    the general one (``atomic``, ``pg``, ``hca_cap_2``) is empty while its gate is 0.
    """

    name: str
    """What the command line calls it."""
    title: str
    identity: PciIdentity
    general: Capabilities
    atomic: Capabilities = field(default_factory=dict)
    odp: Capabilities = field(default_factory=dict)
    general_2: Capabilities = field(default_factory=dict)
    fw_major: int
    fw_minor: int
    fw_subminor: int
    psid: str
    """Board id, ASCII, at most 16 characters."""
    hw_id: int
    """The health buffer's hw_id."""
    ib_proto_oper: IbSpeed
    ib_link_width_oper: int = 4
    """Lanes, in PTYS encoding: 1, 2, 4, 8, and 16 for 12X."""
    bar0_size: int = 32 << 20
    """Bytes; a UAR page of 4 KiB each."""

    def __post_init__(self) -> None:
        if not self.psid.isascii() or len(self.psid) > BOARD_ID_BYTES:
            raise ValueError(f"board id {self.psid!r}: not {BOARD_ID_BYTES} ASCII characters")

    @property
    def capabilities(self) -> Mapping[CapType, Capabilities]:
        """Every group's MAX values."""
        return {
            CapType.GENERAL: self.general,
            CapType.ATOMIC: self.atomic,
            CapType.ODP: self.odp,
            CapType.GENERAL_2: self.general_2,
        }

    @property
    def firmware(self) -> str:
        """The firmware version as ``ethtool -i`` and ``ibv_devinfo`` print it."""
        return f"{self.fw_major}.{self.fw_minor:02}.{self.fw_subminor:04}"

    @property
    def link(self) -> str:
        """Speed and width of the InfiniBand link."""
        return f"{self.ib_proto_oper.name} {self.ib_link_width_oper}X"


BASE_GENERAL: Capabilities = MappingProxyType(
    {
        # Transport services. mlx5_ib does not load without xrc (hw/main.c: mlx5_ib_dev_res_init).
        "rc": 1,
        "uc": 1,
        "ud": 1,
        "xrc": 1,
        "pkv": 1,
        "qkv": 1,
        "log_max_ra_req_qp": 4,
        "log_max_ra_res_qp": 4,
        "log_max_msg": 30,
        "local_ca_ack_delay": 16,
        # The port. Table sizes are codes: 0 is 8 GIDs and 128 P_Keys.
        "port_type": 0,
        "num_ports": 1,
        "ib_virt": 1,
        "vport_counters": 1,
        "vport_group_manager": 0,
        "gid_table_size": 0,
        "pkey_table_size": 0,
        # Queues: how many, how long, how wide.
        "log_max_qp": 18,
        "log_max_qp_sz": 15,
        "log_max_srq": 16,
        "log_max_srq_sz": 15,
        "log_max_rmp": 16,
        "log_max_cq": 18,
        "log_max_cq_sz": 22,
        "log_max_eq": 6,
        "max_num_eqs": 64,
        "log_max_eq_sz": 13,
        "max_wqe_sz_sq": 1024,
        "max_wqe_sz_rq": 512,
        "basic_cyclic_rcv_wqe": 0,
        "cqe_version": 0,
        "cq_moderation": 1,
        "cq_resize": 1,
        "cq_oi": 1,
        "cqe_128_always": 1,
        "block_lb_mc": 1,
        # Protection and memory. Keys change by UMR; windows and lists of any form with it.
        "log_max_pd": 16,
        "log_max_xrcd": 8,
        "log_max_transport_domain": 0,
        "log_max_mkey": 20,
        "log_max_mrw_sz": 0x3F,
        "log_max_klm_list_size": 16,
        "max_indirection": 4,
        "log_pg_sz": 12,
        "umr_modify_entity_size_disabled": 0,
        "umr_modify_atomic_disabled": 0,
        "umr_indirect_mkey_disabled": 0,
        "umr_extended_translation_offset": 1,
        "umr_fence": 1,
        "imaicl": 1,
        # Multicast.
        "log_max_mcg": 8,
        "max_qp_mcg": 64,
        # Doorbells. log_bf_reg_size spaces the doorbell registers, with or without BlueFlame.
        "bf": 0,
        "log_bf_reg_size": 9,
        "uar_4k": 1,
        "num_of_uars_per_page": 1,
        # The rest. A counter set's number has 8 bits; checksum 3 is "signatures can be checked".
        "max_qp_cnt": 64,
        "out_of_seq_cnt": 1,
        "retransmission_q_counters": 1,
        "enhanced_error_q_counters": 1,
        "device_frequency_khz": 1_000_000,
        "cmdif_checksum": 3,
        "log_max_current_uc_list": 0,
        "atomic": 1,
        # Not built.
        "pg": 0,
        "roce": 0,
        "dct": 0,
        "hca_cap_2": 0,
    }
)
"""General capabilities of an InfiniBand function, before a model's own limits."""

BASE_ATOMIC: Capabilities = MappingProxyType(
    {
        "atomic_req_8B_endianness_mode": 1,
        "supported_atomic_req_8B_endianness_mode_1": 1,
        "atomic_operations": ATOMIC_CMP_SWAP | ATOMIC_FETCH_ADD,
        "atomic_size_qp": 8,
    }
)
"""Compare-and-swap and fetch-and-add of 8 bytes (size masks hold powers of two, in bytes).

The endianness mode is 0 for big-endian operands in memory and 1 for the host's byte order, which
the driver chooses (core/main.c: handle_hca_cap_atomic).
"""

VF_LIMITS: Capabilities = MappingProxyType({"log_max_qp": 16, "log_max_eq": 5, "max_num_eqs": 32})
"""What a virtual function gets less of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """What the physical and the virtual function of an adapter share."""

    name: str
    title: str
    pf_id: int
    vf_id: int
    subsystem_id: int
    part_number: str
    psid: str
    firmware: tuple[int, int, int]
    hw_id: int
    pcie: LinkSpeed
    ib: IbSpeed
    limits: Capabilities = field(default_factory=dict)


_PRODUCTS = (
    _Product(
        name="connectx5",
        title="ConnectX-5",
        pf_id=0x1017,
        vf_id=0x1018,
        subsystem_id=0xE005,
        part_number="MLX5EMU-CX5",
        psid="EMU0000000005",
        firmware=(16, 35, 2000),
        hw_id=0x20D,
        pcie=LinkSpeed.GT_8,
        ib=IbSpeed.EDR,
        limits={"log_max_qp": 17, "log_max_cq": 17},
    ),
    _Product(
        name="connectx6",
        title="ConnectX-6",
        pf_id=0x101B,
        vf_id=0x101C,
        subsystem_id=0xE006,
        part_number="MLX5EMU-CX6",
        psid="EMU0000000006",
        firmware=(20, 43, 2000),
        hw_id=0x20F,
        pcie=LinkSpeed.GT_16,
        ib=IbSpeed.HDR,
    ),
    _Product(
        name="connectx6dx",
        title="ConnectX-6 Dx",
        pf_id=0x101D,
        vf_id=0x101E,
        subsystem_id=0xE06D,
        part_number="MLX5EMU-CX6DX",
        psid="EMU000000006D",
        firmware=(22, 43, 2000),
        hw_id=0x212,
        pcie=LinkSpeed.GT_16,
        ib=IbSpeed.HDR,
    ),
    _Product(
        name="connectx7",
        title="ConnectX-7",
        pf_id=0x1021,
        vf_id=0x101E,  # every generation after ConnectX-6 shares this id for its VFs
        subsystem_id=0xE007,
        part_number="MLX5EMU-CX7",
        psid="EMU0000000007",
        firmware=(28, 43, 2000),
        hw_id=0x218,
        pcie=LinkSpeed.GT_32,
        ib=IbSpeed.NDR,
        limits={"log_max_cq": 19, "log_max_mkey": 22},
    ),
)


def _model(product: _Product, *, is_vf: bool) -> Model:
    title = f"{product.title} VF" if is_vf else product.title
    limits = {**product.limits, **VF_LIMITS} if is_vf else product.limits
    identity = PciIdentity(
        device_id=product.vf_id if is_vf else product.pf_id,
        subsystem_id=product.subsystem_id,
        is_vf=is_vf,
        link_speed=product.pcie,
        product_name=f"{title}, emulated by mlx5emu",
        part_number=product.part_number,
    )
    fw_major, fw_minor, fw_subminor = product.firmware
    return Model(
        name=f"{product.name}-vf" if is_vf else product.name,
        title=title,
        identity=identity,
        general=MappingProxyType({**BASE_GENERAL, **limits}),
        atomic=BASE_ATOMIC,
        fw_major=fw_major,
        fw_minor=fw_minor,
        fw_subminor=fw_subminor,
        psid=product.psid,
        hw_id=product.hw_id,
        ib_proto_oper=product.ib,
    )


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        model.name: model
        for product in _PRODUCTS
        for model in (_model(product, is_vf=False), _model(product, is_vf=True))
    }
)
"""Every model by name."""

DEFAULT_MODEL = "connectx6"
