"""The table of adapters, each as a physical and as a virtual function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from emu.device.models.capability_sets import PARTS
from emu.device.models.conditions import Generation, ModelKind, assembled
from emu.device.models.ethernet import with_port_rate
from emu.device.models.model import GROUP_FIELDS, IbSpeed, Model, group
from emu.device.models.software_steering import can_own_tables, with_software_steering
from emu.device.pci import CLASS_ETHERNET, CLASS_INFINIBAND, LinkSpeed, PciIdentity
from layouts.enums.caps import PortType


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """Properties that the physical and virtual functions of an adapter share."""

    name: str
    title: str
    generation: Generation
    pf_id: int
    vf_id: int
    code: str
    """End of the part number."""
    board: int
    """Number of the board, in the PSID and the subsystem id."""
    firmware: tuple[int, int, int]
    hw_id: int
    pcie: LinkSpeed
    lanes: int = 16
    ib: IbSpeed | None = None
    """Speed of the InfiniBand port; None for an adapter that has only Ethernet."""
    eth: int
    """Highest speed of the Ethernet port, Mb/s."""


LATER_VF = 0x101E
"""Device id of all virtual functions since ConnectX-6 Dx."""

_PRODUCTS = (
    _Product(
        name="connectx4lx", title="ConnectX-4 Lx", generation=Generation.CONNECTX4,
        pf_id=0x1015, vf_id=0x1016, code="CX4LX", board=0x41, hw_id=0x20B,
        firmware=(14, 32, 1010), pcie=LinkSpeed.GT_8, lanes=8, eth=25_000,
    ),
    _Product(
        name="connectx5", title="ConnectX-5", generation=Generation.CONNECTX5,
        pf_id=0x1017, vf_id=0x1018, code="CX5", board=0x05, hw_id=0x20D,
        firmware=(16, 35, 2000), pcie=LinkSpeed.GT_8, ib=IbSpeed.EDR, eth=100_000,
    ),
    _Product(
        name="connectx6", title="ConnectX-6", generation=Generation.CONNECTX6,
        pf_id=0x101B, vf_id=0x101C, code="CX6", board=0x06, hw_id=0x20F,
        firmware=(20, 43, 2000), pcie=LinkSpeed.GT_16, ib=IbSpeed.HDR, eth=200_000,
    ),
    _Product(
        name="connectx6dx", title="ConnectX-6 Dx", generation=Generation.CONNECTX6DX,
        pf_id=0x101D, vf_id=LATER_VF, code="CX6DX", board=0x6D, hw_id=0x212,
        firmware=(22, 43, 2000), pcie=LinkSpeed.GT_16, eth=100_000,
    ),
    _Product(
        name="connectx6lx", title="ConnectX-6 Lx", generation=Generation.CONNECTX6DX,
        pf_id=0x101F, vf_id=LATER_VF, code="CX6LX", board=0x6C, hw_id=0x216,
        firmware=(26, 43, 2000), pcie=LinkSpeed.GT_16, lanes=8, eth=25_000,
    ),
    _Product(
        name="connectx7", title="ConnectX-7", generation=Generation.CONNECTX7,
        pf_id=0x1021, vf_id=LATER_VF, code="CX7", board=0x07, hw_id=0x218,
        firmware=(28, 43, 2000), pcie=LinkSpeed.GT_32, ib=IbSpeed.NDR, eth=400_000,
    ),
    _Product(
        name="bluefield2", title="BlueField-2", generation=Generation.CONNECTX6DX,
        pf_id=0xA2D6, vf_id=LATER_VF, code="BF2", board=0xB2, hw_id=0x214,
        firmware=(24, 43, 2000), pcie=LinkSpeed.GT_16, ib=IbSpeed.EDR, eth=100_000,
    ),
    _Product(
        name="bluefield3", title="BlueField-3", generation=Generation.CONNECTX7,
        pf_id=0xA2DC, vf_id=LATER_VF, code="BF3", board=0xB3, hw_id=0x21C,
        firmware=(32, 43, 2000), pcie=LinkSpeed.GT_32, ib=IbSpeed.NDR, eth=400_000,
    ),
)  # fmt: skip


def _model(product: _Product, link: PortType, *, is_vf: bool) -> Model:
    """Return the model of a product's physical or virtual function with this link layer.

    Software steering is included where the adapter supports it; no switch is.
    """
    title = f"{product.title} VF" if is_vf else product.title
    kind = ModelKind(generation=product.generation, link=link, is_vf=is_vf)
    groups = assembled(PARTS, kind)
    identity = PciIdentity(
        device_id=product.vf_id if is_vf else product.pf_id,
        subsystem_id=0xE000 | product.board,
        class_code=CLASS_ETHERNET if link is PortType.ETH else CLASS_INFINIBAND,
        is_vf=is_vf,
        link_speed=product.pcie,
        link_width=product.lanes,
        product_name=f"{title}, emulated by mlx5emu",
        part_number=f"MLX5EMU-{product.code}",
    )
    fw_major, fw_minor, fw_subminor = product.firmware
    made = Model(
        name=f"{product.name}-vf" if is_vf else product.name,
        title=title,
        identity=identity,
        general=group(),
        fw_major=fw_major,
        fw_minor=fw_minor,
        fw_subminor=fw_subminor,
        psid=f"EMU{product.board:010X}",
        hw_id=product.hw_id,
        ib_proto_oper=product.ib or IbSpeed.EDR,
        eth_speed=product.eth,
        has_real_time=product.generation >= Generation.CONNECTX6DX and link is PortType.ETH,
        eth_is_extended=product.generation >= Generation.CONNECTX6,
    )
    made = with_port_rate(made.extended(**{GROUP_FIELDS[of]: groups[of] for of in groups}))
    return with_software_steering(made) if can_own_tables(made) else made


def _links(product: _Product) -> tuple[PortType, ...]:
    """Return the link layers that the port can be configured for, the default first."""
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
"""Every model by name, with its default link layer: InfiniBand where available."""

DEFAULT_MODEL = "connectx6"
