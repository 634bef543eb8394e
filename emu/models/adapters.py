"""The adapters themselves, each as a physical and as a virtual function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from emu.models.capabilities import (
    BASE_ATOMIC,
    BASE_GENERAL,
    MEMORY_ODP,
    TRANSPORT_ODP,
    VF_LIMITS,
)
from emu.models.model import Capabilities, IbSpeed, Model
from emu.pci import LinkSpeed, PciIdentity


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
    odp: Capabilities = field(default_factory=lambda: TRANSPORT_ODP)
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
        odp=MEMORY_ODP,
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
        odp=product.odp,
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
