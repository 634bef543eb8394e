"""The data of a model: identity, firmware version, link and capability groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

from emu.device.objects.memory.memic import AREA_BYTES
from emu.device.pci import PciIdentity
from layouts.enums.caps import CapType, PortType

BAR0_BYTES = 32 << 20

BOARD_ID_BYTES = 16
"""Bytes of the board id (vsd_contd_psid of QUERY_ADAPTER)."""

Capabilities = Mapping[str, Any]
"""Fields of one capability group by PRM name; a nested structure is a mapping."""


def group(*bases: Capabilities, **fields: Any) -> Capabilities:
    """Return a read-only group: the fields of ``bases``, then ``fields``; the last value counts."""
    merged: dict[str, Any] = {}
    for base in bases:
        merged.update(base)
    return MappingProxyType(merged | fields)


class IbSpeed(IntEnum):
    """InfiniBand link speeds, as PTYS ib_proto_oper encodes them."""

    SDR = 1
    DDR = 2
    QDR = 4
    FDR = 16
    EDR = 32
    HDR = 64
    NDR = 128


IB_LANES: Final = {1: 1, 2: 2, 4: 4, 8: 8, 16: 12}
"""Number of lanes by PTYS width."""
IB_LANE_MBPS: Final = {
    1: 2500,
    2: 5000,
    4: 10000,
    8: 10000,
    16: 14000,
    32: 25000,
    64: 50000,
    128: 100000,
}
"""Data rate of one lane in Mb/s by PTYS speed (SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR)."""


GROUP_FIELDS: Final[Mapping[CapType, str]] = {
    CapType.GENERAL: "general",
    CapType.ATOMIC: "atomic",
    CapType.ODP: "odp",
    CapType.GENERAL_2: "general_2",
    CapType.ETHERNET_OFFLOADS: "ethernet",
    CapType.IPOIB_ENHANCED_OFFLOADS: "ipoib_enhanced",
    CapType.FLOW_TABLE: "flow_table",
    CapType.ROCE: "roce",
    CapType.DEV_MEM: "device_memory",
    CapType.DEBUG: "debug",
    CapType.ESWITCH: "eswitch",
    CapType.ESWITCH_FLOW_TABLE: "eswitch_flow_table",
    CapType.DEV_SHAMPO: "shampo",
    CapType.QOS: "qos",
    CapType.CRYPTO: "crypto",
    CapType.PORT_SELECTION: "port_selection",
}
"""Fields of a model by the group that they hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One adapter, as a physical or a virtual function.

    The capability groups hold MAX values; an omitted field is 0. A group with a gate in the general
    one (``emu.device.state.caps``) is empty while its gate is 0.
    """

    name: str
    """Name of the model on the command line."""
    title: str
    identity: PciIdentity
    general: Capabilities
    atomic: Capabilities = field(default_factory=dict)
    odp: Capabilities = field(default_factory=dict)
    general_2: Capabilities = field(default_factory=dict)
    ethernet: Capabilities = field(default_factory=dict)
    ipoib_enhanced: Capabilities = field(default_factory=dict)
    flow_table: Capabilities = field(default_factory=dict)
    roce: Capabilities = field(default_factory=dict)
    device_memory: Capabilities = field(default_factory=dict)
    debug: Capabilities = field(default_factory=dict)
    eswitch: Capabilities = field(default_factory=dict)
    eswitch_flow_table: Capabilities = field(default_factory=dict)
    shampo: Capabilities = field(default_factory=dict)
    qos: Capabilities = field(default_factory=dict)
    crypto: Capabilities = field(default_factory=dict)
    port_selection: Capabilities = field(default_factory=dict)
    fw_major: int
    fw_minor: int
    fw_subminor: int
    psid: str
    """Board id, ASCII, at most 16 characters."""
    hw_id: int
    """Chip number, in the health buffer and the CR space."""
    ib_proto_oper: IbSpeed = IbSpeed.EDR
    """Speed of an InfiniBand port."""
    ib_link_width_oper: int = 4
    """Link width in PTYS encoding: 1, 2, 4, 8, and 16 for 12X."""
    eth_speed: int = 100_000
    """Highest speed of an Ethernet port, Mb/s."""
    eth_is_extended: bool = True
    """Whether the port has extended link modes (``emu.device.port.eth.physical.speed``)."""
    has_real_time: bool = False
    """Whether the clock can report the time of day, once the driver has set it."""
    host_bytes: int = 4 << 30
    """Maximum host memory for one function's guest, in bytes; see
    :mod:`emu.device.objects.ledger`.
    """
    bar0_size: int = BAR0_BYTES
    """Bytes of BAR 0: UAR pages of 4 KiB each, up to the device memory at the end, if any."""
    total_vfs: int = 0
    """Number of virtual functions that a physical function can enable (SR-IOV)."""

    def __post_init__(self) -> None:
        if not self.psid.isascii() or len(self.psid) > BOARD_ID_BYTES:
            raise ValueError(f"board id {self.psid!r}: not {BOARD_ID_BYTES} ASCII characters")

    @property
    def capabilities(self) -> Mapping[CapType, Capabilities]:
        """MAX values of every group; an empty mapping for a group that the model lacks."""
        return {group: getattr(self, name) for group, name in GROUP_FIELDS.items()}

    def extended(self, **groups: Capabilities) -> Model:
        """Return a copy of the model with these fields in its groups, over any present values."""
        merged: dict[str, Any] = {
            name: group(getattr(self, name), fields) for name, fields in groups.items()
        }
        return replace(self, **merged)

    @property
    def uar_end(self) -> int:
        """End of the UAR pages in BAR 0, in bytes: where device memory begins, if there is any."""
        return self.bar0_size - (AREA_BYTES if self.general.get("device_memory") else 0)

    @property
    def port_type(self) -> PortType:
        """The link layer of the function's port."""
        return PortType(self.general["port_type"])

    @property
    def port_mbps(self) -> int:
        """Highest speed of the function's port, in Mb/s: of all InfiniBand lanes together."""
        if self.port_type is PortType.ETH:
            return self.eth_speed
        return IB_LANE_MBPS[self.ib_proto_oper] * IB_LANES[self.ib_link_width_oper]

    @property
    def firmware(self) -> str:
        """The firmware version as ``ethtool -i`` and ``ibv_devinfo`` print it."""
        return f"{self.fw_major}.{self.fw_minor:02}.{self.fw_subminor:04}"

    @property
    def link(self) -> str:
        """Speed and width of the function's port link as text: ``100 GbE`` or ``EDR 4X``."""
        if self.port_type is PortType.ETH:
            return f"{self.eth_speed // 1000} GbE"
        return f"{self.ib_proto_oper.name} {self.ib_link_width_oper}X"
