"""The adapters themselves, each as a physical and as a virtual function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from emu.device.models.capabilities import (
    BASE_ATOMIC,
    BASE_GENERAL,
    BASE_GENERAL_2,
    DEBUG,
    DEVICE_MEMORY,
    MEMORY_ODP,
    TRANSPORT_ODP,
    VF_LIMITS,
)
from emu.device.models.ethernet import (
    ETHERNET_GENERAL,
    ETHERNET_OFFLOADS,
    ETHERNET_VF_LIMITS,
    NIC_FLOW_TABLES,
    ROCE,
)
from emu.device.models.model import Capabilities, IbSpeed, Model
from emu.device.pci import CLASS_ETHERNET, CLASS_INFINIBAND, LinkSpeed, PciIdentity
from layouts.enums import PortType
from layouts.eth_enums import InlineModeCap


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """What the physical and the virtual functions of an adapter have in common."""

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
    ib: IbSpeed | None = None
    """Speed of the InfiniBand port; None for an adapter that has only Ethernet."""
    eth: int
    """Speed of the Ethernet port, Mb/s."""
    odp: Capabilities = field(default_factory=lambda: TRANSPORT_ODP)
    limits: Capabilities = field(default_factory=dict)
    """General capabilities where it differs."""
    ethernet: Capabilities = field(default_factory=dict)
    """Those of ETHERNET_OFFLOADS."""


_PRODUCTS = (
    _Product(
        name="connectx4lx",
        title="ConnectX-4 Lx",
        pf_id=0x1015,
        vf_id=0x1016,
        subsystem_id=0xE041,
        part_number="MLX5EMU-CX4LX",
        psid="EMU0000000041",
        firmware=(14, 32, 1010),
        hw_id=0x20B,
        pcie=LinkSpeed.GT_8,
        eth=25_000,
        limits={
            "log_max_qp": 17,
            "log_max_cq": 17,
            "device_memory": 0,
            "ext_stride_num_range": 0,
        },
        ethernet={
            "enhanced_multi_pkt_send_wqe": 0,
            # It wants to see the Ethernet header in the request, with the VLAN tag if there is one.
            "wqe_inline_mode": InlineModeCap.VPORT_CONTEXT,
            "wqe_vlan_insert": 0,
        },
    ),
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
        eth=100_000,
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
        eth=200_000,
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
        eth=100_000,
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
        eth=400_000,
        odp=MEMORY_ODP,
        limits={"log_max_cq": 19, "log_max_mkey": 22},
    ),
)


def _model(product: _Product, link: PortType, *, is_vf: bool) -> Model:
    title = f"{product.title} VF" if is_vf else product.title
    is_eth = link is PortType.ETH
    limits = product.limits
    if is_vf:
        limits = {**limits, **VF_LIMITS, **(ETHERNET_VF_LIMITS if is_eth else {})}
    identity = PciIdentity(
        device_id=product.vf_id if is_vf else product.pf_id,
        subsystem_id=product.subsystem_id,
        class_code=CLASS_ETHERNET if is_eth else CLASS_INFINIBAND,
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
        general=MappingProxyType({**(ETHERNET_GENERAL if is_eth else BASE_GENERAL), **limits}),
        atomic=BASE_ATOMIC,
        odp=product.odp,
        general_2=BASE_GENERAL_2,
        ethernet={**ETHERNET_OFFLOADS, **product.ethernet} if is_eth else {},
        flow_table=NIC_FLOW_TABLES if is_eth else {},
        roce=ROCE if is_eth else {},
        debug={} if is_vf else DEBUG,
        device_memory=DEVICE_MEMORY if product.limits.get("device_memory", 1) else {},
        fw_major=fw_major,
        fw_minor=fw_minor,
        fw_subminor=fw_subminor,
        psid=product.psid,
        hw_id=product.hw_id,
        ib_proto_oper=product.ib or IbSpeed.EDR,
        eth_speed=product.eth,
    )


def _links(product: _Product) -> tuple[PortType, ...]:
    """The link layers that its port can be set to, the default first."""
    return (PortType.ETH,) if product.ib is None else (PortType.IB, PortType.ETH)


LINKS: Mapping[str, Mapping[PortType, Model]] = MappingProxyType(
    {
        f"{product.name}-vf" if is_vf else product.name: MappingProxyType(
            {link: _model(product, link, is_vf=is_vf) for link in _links(product)}
        )
        for product in _PRODUCTS
        for is_vf in (False, True)
    }
)
"""Every model by name and link layer (an adapter with both is a VPI adapter)."""

MODELS: Mapping[str, Model] = MappingProxyType(
    {name: next(iter(links.values())) for name, links in LINKS.items()}
)
"""Every model by name, with its default link layer: InfiniBand where it has it."""

DEFAULT_MODEL = "connectx6"
