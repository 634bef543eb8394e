"""The data path's packers of the Ethernet port, against views over the same bytes."""

from __future__ import annotations

from random import Random

from layouts.function.nic_vport import mac_address_layout, nic_vport_context, vlan_layout
from layouts.rings.cqe import OP_OWN, cqe64
from layouts.rings.eth_cqe import ETH_CQE
from layouts.rings.eth_wqe import ETH, INLINE_HDR_START, INSERT_SVLAN, INSERT_VLAN, wqe_eth_seg
from layouts.steering.fte import dest_format_struct, flow_context, flow_counter_list


def test_ethernet_segment():
    raw = Random(1).randbytes(wqe_eth_seg.size)
    view = wqe_eth_seg.view(raw)
    assert ETH.unpack(raw) == (view.cs_flags, view.mss, view.flow_table_metadata, view.trailer)


def test_where_the_vlan_tag_and_inline_headers_are():
    """The driver's own arithmetic, core/en_tx.c: cpu_to_be16 of insert.type and of sz."""
    tagged = bytes(12) + (0x8001).to_bytes(2, "big") + (0x2064).to_bytes(2, "big")
    assert ETH.unpack(tagged)[3] == INSERT_VLAN | INSERT_SVLAN | 0x2064
    inline = bytes(12) + (54).to_bytes(2, "big") + b"\x01\x02"
    assert ETH.unpack(inline)[3] >> 16 == 54
    assert inline[INLINE_HDR_START:] == b"\x01\x02"


def test_completion():
    values = {
        "wqe_id": 0x1357,
        "rss_hash_result": 0x51CCC178,
        "rss_hash_type": 0x44,
        "ml_path": 0x80,
        "check_sum": 0xBEEF,
        "flags_rqpn": 0x100,
        "hds_ip_ext": 7,
        "l4_l3_hdr_type": 9,
        "vlan_info": 0x2064,
        "srqn": 0,
        "immediate": 0x1234,
        "byte_cnt": 1514,
        "timestamp_h": 1,
        "timestamp_l": 2,
        "sop_drop_qpn": 0xABCDE,
        "wqe_counter": 0xFFFF,
    }
    packed = ETH_CQE.pack(*values.values())
    assert len(packed) == OP_OWN
    assert packed == bytes(cqe64.new(**values))[:OP_OWN]


def test_lists_behind_a_context():
    """Destinations and counters of an entry are 8 bytes each, so are a port's MACs and VLANs."""
    assert len(flow_context.new(24).destination[0]) == dest_format_struct.size
    assert dest_format_struct.size == flow_counter_list.size == 8
    port = nic_vport_context.new(16, current_uc_mac_address=[0x020304050607, 100 << 32])
    first = mac_address_layout.view(port.buf, nic_vport_context.size)
    assert (first.mac_addr_47_32, first.mac_addr_31_0) == (0x0203, 0x04050607)
    assert vlan_layout.view(port.buf, nic_vport_context.size + 8).vlan == 100
