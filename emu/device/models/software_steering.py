"""Adapters whose flow tables software may own: drivers write steering entries into ICM.

It is an option of an adapter, see :func:`with_software_steering`. The formats of entries are those
of ConnectX-6 Dx and ConnectX-7.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from emu.device.models.model import Capabilities, Model
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address
from emu.device.objects.memory.sw_icm import (
    HEADER_MODIFY,
    HEADER_MODIFY_PATTERN,
    LOG_BLOCK,
    STEERING,
)
from layouts.enums import GeneralObject

_UPLINK = 0xFFFF
"""The vPort that is the cable (emu.device.port.eth.headers)."""
_OWNED: Capabilities = MappingProxyType({"sw_owner_v2": 1})

ICM: Capabilities = MappingProxyType(
    {
        "steering_sw_icm_start_address": STEERING.start,
        "log_steering_sw_icm_size": STEERING.log_size,
        "header_modify_sw_icm_start_address": HEADER_MODIFY.start,
        "log_header_modify_sw_icm_size": HEADER_MODIFY.log_size,
        # rdma-core opens no domain of these formats without it (dr_domain.c:
        # dr_domain_check_icm_memory_caps).
        "header_modify_pattern_sw_icm_start_address": HEADER_MODIFY_PATTERN.start,
        "log_header_modify_pattern_sw_icm_size": HEADER_MODIFY_PATTERN.log_size,
        "log_sw_icm_alloc_granularity": LOG_BLOCK,
    }
)
"""Group DEV_MEM."""

ADDRESSES: Capabilities = MappingProxyType(
    {
        "sw_steering_nic_rx_action_drop_icm_address": icm_address(IcmKind.RX_DROP),
        "sw_steering_nic_tx_action_drop_icm_address": icm_address(IcmKind.TX_DROP),
        "sw_steering_nic_tx_action_allow_icm_address": icm_address(IcmKind.TX_ALLOW),
    }
)
"""Group FLOW_TABLE: where entries lead."""

FDB_ADDRESSES: Capabilities = MappingProxyType(
    {
        "sw_steering_fdb_action_drop_icm_address_rx": icm_address(IcmKind.FDB_RX_DROP),
        "sw_steering_fdb_action_drop_icm_address_tx": icm_address(IcmKind.FDB_TX_DROP),
        "sw_steering_uplink_icm_address_rx": icm_address(IcmKind.VPORT_RX, _UPLINK),
        "sw_steering_uplink_icm_address_tx": icm_address(IcmKind.VPORT_TX, _UPLINK),
    }
)
"""Group ESWITCH_FLOW_TABLE."""

LOOPED: Capabilities = MappingProxyType(
    {"fl_rc_qp_when_roce_disabled": 1, "fl_rc_qp_when_roce_enabled": 1}
)
"""Group ROCE: the queue pairs that write entries are their own peers, and need no address."""


def with_software_steering(model: Model) -> Model:
    """The model with flow tables of software. Raises ValueError for one that can have none."""
    if not model.general.get("steering_format_version") or model.identity.is_vf:
        raise ValueError(f"{model.name} has no flow tables that software may own")
    objects = model.general["general_obj_types"]
    objects |= 1 << GeneralObject.SW_ICM | 1 << GeneralObject.SAMPLER
    general = {**model.general, "general_obj_types": objects, "fl_rc_qp_when_roce_disabled": 1}
    tables = {**model.flow_table, **ADDRESSES}
    for name in ("flow_table_properties_nic_receive", "flow_table_properties_nic_transmit"):
        tables[name] = {**tables[name], **_OWNED, "termination_table": 1}
    return replace(
        model,
        general=MappingProxyType(general),
        device_memory=MappingProxyType({**model.device_memory, **ICM}),
        flow_table=MappingProxyType(tables),
        roce=MappingProxyType({**model.roce, **LOOPED}),
    )


def software_fdb(tables: Capabilities) -> Capabilities:
    """The capabilities of a switch's tables, with those that software may own."""
    fdb = {**tables["flow_table_properties_nic_esw_fdb"], **_OWNED}
    return MappingProxyType({**tables, **FDB_ADDRESSES, "flow_table_properties_nic_esw_fdb": fdb})
