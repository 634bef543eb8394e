"""Virtual port of an InfiniBand function: context, GIDs, P_Keys and counters.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CMD_IN_NO_UID, CMD_OUT
from layouts.prm import Prm, bits, octets, rsvd, tail

# Fields stand in rows, as in the PRM's figures.
# fmt: off

hca_vport_context = Prm(
    "hca_vport_context",
    "field_select" / bits(32), rsvd(224), "sm_virt_aware" / bits(1), "has_smi" / bits(1),
    "has_raw" / bits(1), "grh_required" / bits(1), rsvd(4), "num_port_plane" / bits(8),
    "port_physical_state" / bits(4), "vport_state_policy" / bits(4), "port_state" / bits(4),
    "vport_state" / bits(4), rsvd(32), "system_image_guid" / bits(64), "port_guid" / bits(64),
    "node_guid" / bits(64), "cap_mask1" / bits(32), "cap_mask1_field_select" / bits(32),
    "cap_mask2" / bits(32), "cap_mask2_field_select" / bits(32), rsvd(128), "lid" / bits(16),
    rsvd(4), "init_type_reply" / bits(4), "lmc" / bits(3), "subnet_timeout" / bits(5),
    "sm_lid" / bits(16), "sm_sl" / bits(4), rsvd(12), "qkey_violation_counter" / bits(16),
    "pkey_violation_counter" / bits(16), rsvd(3232),
)

query_hca_vport_context_in = Prm(
    "query_hca_vport_context_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(11), "port_num" / bits(4),
    "vport_number" / bits(16), rsvd(32),
)

query_hca_vport_context_out = Prm(
    "query_hca_vport_context_out",
    *CMD_OUT, rsvd(64), "hca_vport_context" / hca_vport_context,
)

modify_hca_vport_context_in = Prm(
    "modify_hca_vport_context_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(11), "port_num" / bits(4),
    "vport_number" / bits(16), rsvd(32), "hca_vport_context" / hca_vport_context,
)

modify_hca_vport_context_out = Prm("modify_hca_vport_context_out", *CMD_OUT, rsvd(64))

query_hca_vport_gid_in = Prm(
    "query_hca_vport_gid_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(11), "port_num" / bits(4),
    "vport_number" / bits(16), rsvd(16), "gid_index" / bits(16),
)

query_hca_vport_gid_out = Prm(
    "query_hca_vport_gid_out",
    *CMD_OUT, rsvd(32), "gids_num" / bits(16), rsvd(16), "gid" / tail(octets(16)),
)

query_hca_vport_pkey_in = Prm(
    "query_hca_vport_pkey_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(11), "port_num" / bits(4),
    "vport_number" / bits(16), rsvd(16), "pkey_index" / bits(16),
)

pkey = Prm("pkey", rsvd(16), "pkey" / bits(16))
query_hca_vport_pkey_out = Prm("query_hca_vport_pkey_out", *CMD_OUT, rsvd(64), "pkey" / tail(pkey))

query_vport_state_in = Prm(
    "query_vport_state_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(15), "vport_number" / bits(16), rsvd(32),
)

query_vport_state_out = Prm(
    "query_vport_state_out",
    *CMD_OUT, rsvd(56), "admin_state" / bits(4), "state" / bits(4),
)

traffic_counter = Prm("traffic_counter", "packets" / bits(64), "octets" / bits(64))

query_vport_counter_in = Prm(
    "query_vport_counter_in",
    *CMD_IN_NO_UID, "other_vport" / bits(1), rsvd(11), "port_num" / bits(4),
    "vport_number" / bits(16), rsvd(96), "clear" / bits(1), rsvd(63),
)

query_vport_counter_out = Prm(
    "query_vport_counter_out",
    *CMD_OUT, rsvd(64), "received_errors" / traffic_counter, "transmit_errors" / traffic_counter,
    "received_ib_unicast" / traffic_counter, "transmitted_ib_unicast" / traffic_counter,
    "received_ib_multicast" / traffic_counter, "transmitted_ib_multicast" / traffic_counter,
    "received_eth_broadcast" / traffic_counter, "transmitted_eth_broadcast" / traffic_counter,
    "received_eth_unicast" / traffic_counter, "transmitted_eth_unicast" / traffic_counter,
    "received_eth_multicast" / traffic_counter, "transmitted_eth_multicast" / traffic_counter,
    "local_loopback" / traffic_counter, rsvd(2432),
)
