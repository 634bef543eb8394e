"""A port of the subnet: addresses, link and state, and the attributes that carry them.

Source: IBTA volume 1, 14.2.5.3 (NodeInfo), 14.2.5.6 (PortInfo), 9.11.1 and 15.2.5.16 (MTU and rate
codes). The device keeps link speed and width in PTYS encoding; this module converts them to IBTA's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from emu.device.models.model import IB_LANE_MBPS, IB_LANES
from emu.device.port.ib.port import (
    GID_TABLE_ENTRIES,
    LINK_LOCAL_PREFIX,
    PKEY_TABLE_ENTRIES,
    SM_LID,
    IbPort,
)
from emu.device.rounds.costs import LOG_PKEYS_PER_STEP, STEPS_PER_PORT
from layouts.enums.vport import PhysState, PortState
from layouts.wire.mads import BASE_VERSION, NodeType, node_info, port_info

VENDOR_ID: Final = 0x02C9
NODE_INFO_CLASS_VERSION: Final = 1
VL0_TO_VL7: Final = 4

_WIDTHS: Final = {1: 1, 2: 16, 4: 2, 8: 4, 12: 8}
"""Lanes to PortInfo.LinkWidth*, one bit each."""
_RATES: Final = {
    2500: 2, 5000: 5, 10000: 3, 14000: 11, 20000: 6, 25000: 15, 28000: 19, 30000: 4, 40000: 7,
    50000: 20, 56000: 12, 60000: 8, 80000: 9, 100000: 16, 112000: 13, 120000: 10, 168000: 14,
    200000: 17, 300000: 18, 400000: 21, 600000: 22, 800000: 23, 1200000: 24,
}  # fmt: skip
"""Mb/s to rate code (enum ib_rate)."""
RATE_MBPS: Final = {code: mbps for mbps, code in _RATES.items()}
"""Rate code to Mb/s; codes and rates have different orders."""

_SLOWEST_RATE: Final = _RATES[2500]
_QDR: Final = 4
_EXTENDED: Final = {16: 1, 32: 2, 64: 4, 128: 8}
"""LinkSpeedActive of everything above QDR, and LinkSpeedExtActive by PTYS speed."""
_EXTENDED_SPEEDS_SUP: Final = 1 << 14
_CAP_MASK2_SUP: Final = 1 << 15
_CAP_MASK2: Final = {64: 1 << 5, 128: 1 << 10}
"""CapabilityMask2 bits without which Linux ignores HDR and NDR (hw/mad.c)."""


def mtu_code(mtu: int) -> int:
    """Return IBTA's MTU code: 1 is 256 bytes, and each next code doubles the MTU."""
    return mtu.bit_length() - 8


def _up_to(bit: int) -> int:
    """Return a bit field with a speed or width and all slower ones set."""
    return max(bit * 2 - 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPort:
    """A port of the subnet. Speed and width are in PTYS encoding, GUIDs are integers."""

    lid: int
    port_guid: int
    node_guid: int
    pkeys: tuple[int, ...]
    node_description: bytes
    """64 bytes."""
    mtu: int = 4096
    width: int = 4
    speed: int = 32
    state: PortState = PortState.ACTIVE
    phys_state: PhysState = PhysState.LINK_UP
    cap_mask: int = 0
    sm_lid: int = SM_LID
    gid_prefix: int = LINK_LOCAL_PREFIX
    subnet_timeout: int = 18
    device_id: int = 0
    node_type: NodeType = NodeType.CHANNEL_ADAPTER
    port_num: int = 1
    num_ports: int = 1
    """Number of ports of the node."""
    pkey_violations: int = 0
    qkey_violations: int = 0

    @property
    def gid(self) -> bytes:
        """The port's first GID: the subnet's prefix and its GUID."""
        return self.gid_prefix.to_bytes(8, "big") + self.port_guid.to_bytes(8, "big")

    @property
    def mtu_code(self) -> int:
        """MTU code for PathRecord and PortInfo."""
        return mtu_code(self.mtu)

    @property
    def rate(self) -> int:
        """Rate code of the link (enum ib_rate)."""
        lane = IB_LANE_MBPS.get(self.speed, 0)
        return _RATES.get(lane * IB_LANES.get(self.width, 0), _SLOWEST_RATE)

    def node_info(self) -> bytes:
        """Return NodeInfo of the port's node."""
        info = node_info.new(
            base_version=BASE_VERSION, class_version=NODE_INFO_CLASS_VERSION,
            node_type=self.node_type, num_ports=self.num_ports, sys_guid=self.node_guid,
            node_guid=self.node_guid, port_guid=self.port_guid,
            partition_cap=PKEY_TABLE_ENTRIES, device_id=self.device_id,
            local_port_num=self.port_num, vendor_id=VENDOR_ID,
        )  # fmt: skip
        return bytes(info)

    def port_info(self) -> bytes:
        """Return PortInfo; the M_Key field is 0.

        All supported widths and speeds up to the active ones count as supported and enabled.
        """
        width = _WIDTHS[IB_LANES.get(self.width, 1)]
        extended = _EXTENDED.get(self.speed, 0)
        speed = _QDR if extended else min(self.speed, _QDR)
        cap_mask = self.cap_mask | (_EXTENDED_SPEEDS_SUP | _CAP_MASK2_SUP if extended else 0)
        info = port_info.new(
            gid_prefix=self.gid_prefix, lid=self.lid, sm_lid=self.sm_lid, cap_mask=cap_mask,
            local_port_num=self.port_num, link_width_enabled=_up_to(width),
            link_width_supported=_up_to(width), link_width_active=width,
            link_speed_supported=_up_to(speed), port_state=self.state,
            port_physical_state=self.phys_state, link_down_default_state=PhysState.POLLING,
            link_speed_active=speed, link_speed_enabled=_up_to(speed), neighbor_mtu=self.mtu_code,
            mtu_cap=self.mtu_code, vl_cap=VL0_TO_VL7, operational_vls=VL0_TO_VL7,
            guid_cap=GID_TABLE_ENTRIES, subnet_timeout=self.subnet_timeout,
            cap_mask2=_CAP_MASK2.get(self.speed, 0), link_speed_ext_active=extended,
            link_speed_ext_supported=_up_to(extended), link_speed_ext_enabled=_up_to(extended),
            pkey_violations=self.pkey_violations, qkey_violations=self.qkey_violations,
        )  # fmt: skip
        return bytes(info)


def steps_of(ports: Collection[EndPort]) -> int:
    """Return the cost in steps of comparing or announcing these ports."""
    pkeys = sum(len(port.pkeys) for port in ports)
    return len(ports) * STEPS_PER_PORT + (pkeys >> LOG_PKEYS_PER_STEP)


def end_port(port: IbPort) -> EndPort:
    """Return the current subnet attributes of the function's port."""
    return EndPort(
        lid=port.lid,
        port_guid=port.port_guid,
        node_guid=port.node_guid,
        pkeys=port.pkeys,
        node_description=port.node_description,
        mtu=port.mtu,
        width=port.width_oper,
        speed=port.proto_oper,
        state=port.state,
        phys_state=port.phys_state,
        cap_mask=port.cap_mask1,
        sm_lid=port.sm_lid,
        gid_prefix=port.gid_prefix,
        subnet_timeout=port.subnet_timeout,
        device_id=port.device_id,
        pkey_violations=port.pkey_violations,
        qkey_violations=port.qkey_violations,
    )
