"""Virtual port of an InfiniBand function: context, GIDs, P_Keys and counters.

Names and widths: mlx5_ifc.h of Linux 6.12.
"""

from __future__ import annotations

from layouts.cmd import CmdInNoUid, CmdOut, VportIn
from layouts.prm import Prm, bits, nested, octets, rsvd, tail

# Rows end where words of 32 bits end, as in the PRM's figures.
# fmt: off

class hca_vport_context(Prm):
    field_select = bits(32); _ = rsvd(224)
    sm_virt_aware = bits(1); has_smi = bits(1); has_raw = bits(1); grh_required = bits(1)
    _ = rsvd(4); num_port_plane = bits(8); port_physical_state = bits(4)
    vport_state_policy = bits(4); port_state = bits(4); vport_state = bits(4); _ = rsvd(32)
    system_image_guid = bits(64); port_guid = bits(64); node_guid = bits(64); cap_mask1 = bits(32)
    cap_mask1_field_select = bits(32); cap_mask2 = bits(32); cap_mask2_field_select = bits(32)
    _ = rsvd(128)
    lid = bits(16); _ = rsvd(4); init_type_reply = bits(4); lmc = bits(3); subnet_timeout = bits(5)
    sm_lid = bits(16); sm_sl = bits(4); _ = rsvd(12)
    qkey_violation_counter = bits(16); pkey_violation_counter = bits(16); _ = rsvd(3232)

class query_hca_vport_context_in(CmdInNoUid):
    other_vport = bits(1); _ = rsvd(11); port_num = bits(4); vport_number = bits(16); _ = rsvd(32)

class query_hca_vport_context_out(CmdOut):
    _ = rsvd(64); hca_vport_context = nested(hca_vport_context)

class modify_hca_vport_context_in(CmdInNoUid):
    other_vport = bits(1); _ = rsvd(11); port_num = bits(4); vport_number = bits(16); _ = rsvd(32)
    hca_vport_context = nested(hca_vport_context)

class modify_hca_vport_context_out(CmdOut): _ = rsvd(64)

class query_hca_vport_gid_in(CmdInNoUid):
    other_vport = bits(1); _ = rsvd(11); port_num = bits(4); vport_number = bits(16)
    _ = rsvd(16); gid_index = bits(16)

class query_hca_vport_gid_out(CmdOut):
    _ = rsvd(32); gids_num = bits(16); _ = rsvd(16); gid = tail(octets(16))

class query_hca_vport_pkey_in(CmdInNoUid):
    other_vport = bits(1); _ = rsvd(11); port_num = bits(4); vport_number = bits(16)
    _ = rsvd(16); pkey_index = bits(16)

class pkey(Prm): _ = rsvd(16); pkey = bits(16)
class query_hca_vport_pkey_out(CmdOut): _ = rsvd(64); pkey = tail(nested(pkey))

class query_vport_state_in(VportIn):
    _ = rsvd(32)

class query_vport_state_out(CmdOut): _ = rsvd(56); admin_state = bits(4); state = bits(4)
class traffic_counter(Prm): packets = bits(64); octets = bits(64)

class query_vport_counter_in(CmdInNoUid):
    other_vport = bits(1); _ = rsvd(11); port_num = bits(4); vport_number = bits(16); _ = rsvd(96)
    clear = bits(1); _ = rsvd(63)

class query_vport_counter_out(CmdOut):
    _ = rsvd(64); received_errors = nested(traffic_counter)
    transmit_errors = nested(traffic_counter); received_ib_unicast = nested(traffic_counter)
    transmitted_ib_unicast = nested(traffic_counter)
    received_ib_multicast = nested(traffic_counter)
    transmitted_ib_multicast = nested(traffic_counter)
    received_eth_broadcast = nested(traffic_counter)
    transmitted_eth_broadcast = nested(traffic_counter)
    received_eth_unicast = nested(traffic_counter)
    transmitted_eth_unicast = nested(traffic_counter)
    received_eth_multicast = nested(traffic_counter)
    transmitted_eth_multicast = nested(traffic_counter); local_loopback = nested(traffic_counter)
    _ = rsvd(2432)
