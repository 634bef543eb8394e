"""An adapter whose embedded switch (E-Switch) the physical function manages.

The switch is an option of an adapter, see :func:`with_switch`. ``emu/device/adapter/README.md``
lists what each capability enables in the driver.
"""

from __future__ import annotations

from emu.device.models.ethernet import METADATA, TABLES
from emu.device.models.model import Capabilities, Model, group
from emu.device.models.software_steering import software_fdb
from emu.device.objects.eth.flex_parsers import GENEVE_OPTION, MPLS_OVER_UDP
from emu.device.objects.eth.flow_meter import LOG_MAX_IN_RANGE
from emu.device.objects.eth.geneve_option import MAX_OPTIONS, MAX_WORDS
from emu.device.objects.eth.packet_reformat import MAX_MOVED
from layouts.enums.caps import FlexProtocol, InlineModeCap, PortType
from layouts.enums.general_object import GeneralObject
from layouts.enums.vport import FdbToVport

SWITCH_GENERAL: Capabilities = group(
    eswitch_manager=1,
    vhca_resource_manager=1,
    log_max_l2_table=9,
    nic_vport_change_event=1,
    # Drops of a vPort that is down are part of `ip -s link show` (core/esw/legacy.c:
    # mlx5_esw_query_vport_drop_stats).
    receive_discard_vport_down=1,
    transmit_discard_vport_down=1,
)
"""General capabilities of the function that manages the switch."""

_PROTOCOLS = FlexProtocol.GENEVE_TLV_OPTION_0 | FlexProtocol.CW_MPLS_UDP
FLEX_PARSERS: Capabilities = group(
    max_geneve_tlv_options=MAX_OPTIONS,
    max_geneve_tlv_option_data_len=MAX_WORDS,
    flex_parser_id_geneve_tlv_option_0=GENEVE_OPTION,
    flex_parser_id_outer_first_mpls_over_udp_label=MPLS_OVER_UDP,
)
"""General capabilities: the FDB matches a Geneve option (core/en/tc_tun_geneve.c), which OVN puts
in each packet, and MPLS over UDP (core/en/tc_tun_mplsoudp.c).
"""

_LATER: Capabilities = group(reg_c_preserve=1)
"""Capability of ConnectX-6 Dx and later: a packet's registers C keep their values when the packet
restarts at the root (core/en/tc/int_port.c: internal ports of Open vSwitch).
"""

_FIELDS: Capabilities = group(
    TABLES["ft_field_support"],
    METADATA,
    source_eswitch_port=1,
    outer_geneve_vni=1,
    outer_geneve_oam=1,
    outer_geneve_protocol_type=1,
    outer_geneve_opt_len=1,
)
_WHOLE_LABEL = 0xF
"""Label, traffic class, bottom of stack, TTL (MLX5_FIELD_SUPPORT_MPLS_*)."""
_FDB_FIELDS: Capabilities = group(
    _FIELDS, geneve_tlv_option_0_data=1, outer_first_mpls_over_udp=_WHOLE_LABEL
)
_SWITCHING: Capabilities = group(
    TABLES,
    # Header modifications by an entry.
    log_max_modify_header_context=13,
    max_modify_header_actions=32,
    ft_field_support=_FIELDS,
    ft_field_bitmask_support=_FIELDS,
)

ESWITCH_FLOW_TABLES: Capabilities = group(
    # An entry of the FDB may apply only to packets from the cable, or only to all others: up to
    # 6.1 Linux uses the registers below only with that. Registers C0 and C1 of a packet are
    # passed from the forwarding database (FDB) to a vPort: Linux identifies the sending vPort
    # by them (core/eswitch_offloads.c: mlx5_esw_vport_match_metadata_supported).
    fdb_to_vport_reg_c_id=FdbToVport.REG_C_0 | FdbToVport.REG_C_1,
    flow_source=1,
    multi_fdb_encap=1,
    fdb_modify_header_fwd_to_table=1,
    fdb_multi_path_to_table=1,
    # Entries of any table may have several destinations, and may return packets from the cable
    # to the cable: multicast of bridges (core/esw/bridge.c: mlx5_esw_bridge_mcast_set).
    fdb_multi_path_any_table=1,
    fdb_uplink_hairpin=1,
    # Packets to a vPort are forwarded to another one: bonds of representors
    # (core/en/rep/bond.c).
    egress_acl_forward_to_vport=1,
    flow_table_properties_nic_esw_fdb={
        **_SWITCHING, "ignore_flow_level": 1, "max_ft_level": 255,
        "pop_vlan": 1, "pop_vlan_2": 1, "push_vlan": 1, "push_vlan_2": 1,
        # Tunnels, and the VLAN actions of bridges (core/esw/bridge.c).
        "reformat": 1, "decap": 1, "reformat_and_vlan_action": 1,
        "reformat_and_modify_action": 1, "reformat_and_fwd_to_table": 1,
        "reformat_insert": 1, "reformat_remove": 1,
        # Tunnels of IP packets: MPLS over UDP (core/en/tc_tun_mplsoudp.c).
        "reformat_l3_tunnel_to_l2": 1, "reformat_l2_to_l3_tunnel": 1,
        # A table whose entries are final; they may return a packet to its source.
        "termination_table": 1, "termination_table_raw_traffic": 1,
        "execute_aso": 1,
        "ft_field_support": _FDB_FIELDS, "ft_field_bitmask_support": _FDB_FIELDS,
    },
    # A virtual function's VLAN (VST): the ingress ACL adds the tag and the egress ACL removes
    # it (core/eswitch.h: esw_vst_mode_is_steering).
    flow_table_properties_esw_acl_ingress={**_SWITCHING, "push_vlan": 1},
    flow_table_properties_esw_acl_egress={**_SWITCHING, "pop_vlan": 1},
)  # fmt: skip
"""Group ESWITCH_FLOW_TABLE: the FDB, and the access control lists (ACL) on both sides of it."""

ESWITCH: Capabilities = group(
    esw_uplink_ingress_acl=1,
    nic_vport_node_guid_modify=1,
    vxlan_encap_decap=1,
    nvgre_encap_decap=1,
    log_max_fdb_encap_uplink=5,
    log_max_packet_reformat_context=13,
    max_encap_header_size=256,
)
"""Group ESWITCH."""


METERS: Capabilities = group(
    log_meter_aso_granularity=0,
    log_meter_aso_max_alloc=LOG_MAX_IN_RANGE,
    log_max_num_meter_aso=16,
)
"""Group QOS: meters for entries of the FDB (tc's police), in objects of two."""

_TSAR, _VPORT, _VPORT_TC, _RATE_LIMIT = 1 << 0, 1 << 1, 1 << 2, 1 << 5
_DWRR, _TC_ARB = 1 << 0, 1 << 3

VPORT_RATES: Capabilities = group(
    esw_scheduling=1,
    esw_bw_share=1,
    esw_rate_limit=1,
    log_esw_max_sched_depth=2,
    esw_element_type=_TSAR | _VPORT | _VPORT_TC | _RATE_LIMIT,
    esw_tsar_type=_DWRR | _TC_ARB,
    max_tsar_bw_share=100,
)
"""Group QOS: rates of vPorts and of groups of them (devlink port function rate)."""

MOVED_HEADERS: Capabilities = group(
    max_reformat_insert_size=MAX_MOVED,
    max_reformat_insert_offset=MAX_MOVED,
    max_reformat_remove_size=MAX_MOVED,
    max_reformat_remove_offset=MAX_MOVED,
)
"""Group GENERAL_2, for packet reformat contexts."""


def can_switch(model: Model) -> bool:
    """Return whether the model can have a switch: a PF's Ethernet port, from ConnectX-5 on.

    Real ConnectX-4 Lx adapters have a switch too, but without packet registers. The result does not
    say whether the model has its switch now.
    """
    return (
        model.port_type is PortType.ETH
        and not model.identity.is_vf
        and model.ethernet["wqe_inline_mode"] == InlineModeCap.NOT_REQUIRED
    )


def with_switch(model: Model) -> Model:
    """Return a copy of the model with its switch.

    Raises ValueError for a model that can have none.
    """
    if not can_switch(model):
        raise ValueError(f"{model.name} has no embedded switch")
    objects = model.general["general_obj_types"]
    has_software = objects >> GeneralObject.SW_ICM & 1
    objects |= 1 << GeneralObject.FLOW_METER_ASO | 1 << GeneralObject.SAMPLER
    objects |= 1 << GeneralObject.GENEVE_TLV_OPT
    protocols = model.general["flex_parser_protocols"] | _PROTOCOLS
    later = _LATER if model.general.get("steering_format_version") else {}
    fields = {"general_obj_types": objects, "flex_parser_protocols": protocols}
    tables = software_fdb(ESWITCH_FLOW_TABLES) if has_software else ESWITCH_FLOW_TABLES
    return model.extended(
        general=group(SWITCH_GENERAL, FLEX_PARSERS, later, fields),
        qos=group(METERS, VPORT_RATES),
        general_2=MOVED_HEADERS,
        eswitch=ESWITCH,
        eswitch_flow_table=tables,
    )
