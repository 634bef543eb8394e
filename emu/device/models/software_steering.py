"""Adapters with flow tables that software owns: drivers write steering entries into ICM.

Adapters from ConnectX-6 Dx on have them, like real ones; an option removes them. The formats of
entries are those of ConnectX-6 Dx and ConnectX-7.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from emu.device.models.model import Capabilities, Model, group
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address, vport_address
from emu.device.objects.memory.sw_icm import (
    HEADER_MODIFY,
    HEADER_MODIFY_PATTERN,
    LOG_BLOCK,
    STEERING,
)
from layouts.enums.general_object import GeneralObject

_UPLINK = 0xFFFF
"""The vPort of the cable (emu.device.port.eth.headers)."""
_OWNED: Capabilities = group(sw_owner_v2=1)

ICM: Capabilities = group(
    steering_sw_icm_start_address=STEERING.start,
    log_steering_sw_icm_size=STEERING.log_size,
    header_modify_sw_icm_start_address=HEADER_MODIFY.start,
    log_header_modify_sw_icm_size=HEADER_MODIFY.log_size,
    # rdma-core opens no domain of these formats without it (dr_domain.c:
    # dr_domain_check_icm_memory_caps).
    header_modify_pattern_sw_icm_start_address=HEADER_MODIFY_PATTERN.start,
    log_header_modify_pattern_sw_icm_size=HEADER_MODIFY_PATTERN.log_size,
    log_sw_icm_alloc_granularity=LOG_BLOCK,
)
"""Group DEV_MEM."""

ADDRESSES: Capabilities = group(
    sw_steering_nic_rx_action_drop_icm_address=icm_address(IcmKind.RX_DROP),
    sw_steering_nic_tx_action_drop_icm_address=icm_address(IcmKind.TX_DROP),
    sw_steering_nic_tx_action_allow_icm_address=icm_address(IcmKind.TX_ALLOW),
)
"""Group FLOW_TABLE: target addresses of entries."""


def _cable(port: int) -> dict[str, int]:
    """Return the ICM addresses to which entries forward packets for the cable of a board's port."""
    return {
        "sw_steering_uplink_icm_address_rx": vport_address(IcmKind.VPORT_RX, port, _UPLINK),
        "sw_steering_uplink_icm_address_tx": vport_address(IcmKind.VPORT_TX, port, _UPLINK),
    }


FDB_ADDRESSES: Capabilities = group(
    _cable(1),
    sw_steering_fdb_action_drop_icm_address_rx=icm_address(IcmKind.FDB_RX_DROP),
    sw_steering_fdb_action_drop_icm_address_tx=icm_address(IcmKind.FDB_TX_DROP),
)
"""Group ESWITCH_FLOW_TABLE."""

LOOPED: Capabilities = group(fl_rc_qp_when_roce_disabled=1, fl_rc_qp_when_roce_enabled=1)
"""Group ROCE: the queue pairs that write entries are connected to themselves, and need no
address.
"""


_TABLES = ("flow_table_properties_nic_receive", "flow_table_properties_nic_transmit")
_TERMINATION: Capabilities = group(termination_table=1)
_OBJECTS = 1 << GeneralObject.SW_ICM | 1 << GeneralObject.SAMPLER


def can_own_tables(model: Model) -> bool:
    """Return whether software may own flow tables: the model has a steering_format_version."""
    return bool(model.general.get("steering_format_version"))


def with_software_steering(model: Model) -> Model:
    """Return a copy of the model with NIC flow tables that software may own.

    Raises ValueError for a model without a supported entry format. The FDB is not included
    (``software_fdb``).
    """
    if not can_own_tables(model):
        raise ValueError(f"{model.name} does not support flow tables owned by software")
    objects = model.general["general_obj_types"] | _OBJECTS
    return model.extended(
        general={"general_obj_types": objects, "fl_rc_qp_when_roce_disabled": 1},
        device_memory=ICM,
        flow_table={
            **ADDRESSES,
            **{name: group(model.flow_table[name], _OWNED, _TERMINATION) for name in _TABLES},
        },
        roce=LOOPED,
    )


def without_software_steering(model: Model) -> Model:
    """Return a copy of the model with NIC flow tables that only firmware owns.

    Also for a model that has no others.
    """
    general = _but(model.general, {"fl_rc_qp_when_roce_disabled"})
    general["general_obj_types"] &= ~_OBJECTS
    tables = _but(model.flow_table, ADDRESSES)
    for name in _TABLES:
        if name in tables:
            tables[name] = _but(tables[name], {*_OWNED, *_TERMINATION})
    return replace(
        model,
        general=group(general),
        device_memory=group(_but(model.device_memory, ICM)),
        flow_table=group(tables),
        roce=group(_but(model.roce, LOOPED)),
    )


def _but(group: Capabilities, names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name not in names}


def software_fdb(tables: Capabilities) -> Capabilities:
    """Return the capabilities of a switch's tables, with those that software may own."""
    fdb = group(tables["flow_table_properties_nic_esw_fdb"], _OWNED)
    return group(tables, FDB_ADDRESSES, flow_table_properties_nic_esw_fdb=fdb)


def with_fdb_of_port(model: Model, port: int) -> Model:
    """Return the model with the uplink addresses of a board's port in the tables of its switch.

    Unchanged for a switch whose tables only firmware owns.
    """
    has_any = FDB_ADDRESSES.keys() <= model.eswitch_flow_table.keys()
    return model.extended(eswitch_flow_table=_cable(port)) if has_any else model
