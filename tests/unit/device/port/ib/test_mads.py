"""Management structures: places that the driver knows by number, and component masks."""

import pytest

from emu.device.port.ib.endport import RATE_MBPS, EndPort, mtu_code
from layouts.enums.vport import PhysState, PortState
from layouts.wire import mads, sa
from layouts.wire.components import Components

ALL_BITS = (1 << 64) - 1


@pytest.fixture
def port():
    return EndPort(
        lid=0x123, port_guid=0xA1, node_guid=0xB2, pkeys=(0xFFFF,), node_description=bytes(64),
        speed=64, cap_mask=0x10820, device_id=0x101B, sm_lid=0xBFFF, subnet_timeout=17,
    )  # fmt: skip


def test_port_info_is_where_the_driver_looks(port):
    """hw/mad.c:mlx5_query_mad_ifc_port reads bytes."""
    info = port.port_info()
    assert info[8:16] == bytes.fromhex("fe80000000000000")
    assert info[16:20] == bytes.fromhex("0123bfff")
    assert int.from_bytes(info[20:24], "big") & 0x10820 == 0x10820
    assert info[31] & 0xF == 2  # 4X
    assert info[32] & 0xF == PortState.ACTIVE
    assert info[33] >> 4 == PhysState.LINK_UP
    assert info[34] & 7 == 0
    assert info[36] >> 4 == info[41] & 0xF == 5  # 4096 bytes
    assert info[37] >> 4 == 4  # VL0 to VL7
    assert info[50] == 8
    assert info[51] & 0x1F == 17


@pytest.mark.parametrize(
    ("speed", "active", "extended", "cap_mask2"),
    [(4, 4, 0, 0), (16, 4, 1, 0), (32, 4, 2, 0), (64, 4, 4, 1 << 5), (128, 4, 8, 1 << 10)],
)
def test_speed_as_the_driver_reads_it(speed, active, extended, cap_mask2):
    """Beyond QDR it wants the extended speed, its capability bit, and for HDR and NDR one more."""
    info = EndPort(
        lid=1, port_guid=1, node_guid=1, pkeys=(), node_description=bytes(64), speed=speed
    ).port_info()
    assert (info[35] >> 4, info[62] >> 4) == (active, extended)
    assert int.from_bytes(info[60:62], "big") == cap_mask2
    capabilities = int.from_bytes(info[20:24], "big")
    assert bool(capabilities & 1 << 14) == bool(capabilities & 1 << 15) == bool(extended)


@pytest.mark.parametrize(
    ("speed", "width", "mbps"),
    [
        *((1, 1, 2500), (4, 4, 40000), (32, 4, 100000), (64, 4, 200000), (128, 4, 400000)),
        *((32, 1, 25000), (64, 16, 600000)),
    ],
)
def test_rate_follows_speed_and_width(speed, width, mbps):
    """In PTYS encoding, where 16 is 12X."""
    port = EndPort(
        lid=1, port_guid=1, node_guid=1, pkeys=(), node_description=bytes(64), speed=speed,
        width=width,
    )  # fmt: skip
    assert RATE_MBPS[port.rate] == mbps


def test_node_info_is_where_the_driver_looks(port):
    info = port.node_info()
    assert info[4:12] == info[12:20] == (0xB2).to_bytes(8, "big")
    assert info[20:28] == (0xA1).to_bytes(8, "big")
    assert int.from_bytes(info[28:30], "big") == 128
    assert int.from_bytes(info[36:40], "big") & 0xFFFF == 0x02C9


@pytest.mark.parametrize(("mtu", "code"), [(256, 1), (512, 2), (1024, 3), (2048, 4), (4096, 5)])
def test_mtu_codes(mtu, code):
    assert mtu_code(mtu) == code


# Bits of component masks as libibmad's iba_types.h numbers them, those that a mistake would move.
BITS = [
    (sa.path_rec, {"service_id_8msb": 0, "dgid": 2, "sgid": 3, "dlid": 4, "slid": 5}),
    (sa.path_rec, {"flow_label": 8, "hop_limit": 9, "traffic_class": 10, "reversible": 11}),
    (sa.path_rec, {"numb_path": 12, "pkey": 13, "qos_class": 14, "sl": 15, "mtu_selector": 16}),
    (sa.path_rec, {"rate": 19, "packet_life_time": 21, "preference": 22}),
    (sa.mcmember_rec, {"mgid": 0, "port_gid": 1, "qkey": 2, "mlid": 3, "mtu_selector": 4}),
    (sa.mcmember_rec, {"pkey": 7, "rate": 9, "sl": 12, "flow_label": 13, "hop_limit": 14}),
    (sa.mcmember_rec, {"scope": 15, "join_state": 16, "proxy_join": 17}),
    (sa.node_rec, {"lid": 0, "node_info.base_version": 2, "node_info.node_guid": 7}),
    (sa.node_rec, {"node_info.port_guid": 8, "node_info.vendor_id": 13, "node_desc": 14}),
    (sa.portinfo_rec, {"lid": 0, "port_num": 1, "options": 2, "port_info.lid": 5}),
    (sa.portinfo_rec, {"port_info.cap_mask": 7, "port_info.port_state": 15}),
    (sa.portinfo_rec, {"port_info.guid_cap": 42, "port_info.subnet_timeout": 45}),
    (sa.portinfo_rec, {"port_info.cap_mask2": 53, "port_info.link_speed_ext_enabled": 57}),
    (sa.service_rec, {"service_id": 0, "service_pkey": 2, "service_lease": 4, "service_name": 6}),
    (sa.inform_info_rec, {"subscriber_gid": 0, "subscriber_enum": 1, "inform_info.gid": 3}),
]


@pytest.mark.parametrize(("prm", "bits"), BITS)
def test_component_masks_are_numbered_in_the_records_order(prm, bits):
    components = Components(prm)
    assert {name: components.bits[name] for name in bits} == {
        name: 1 << bit for name, bit in bits.items()
    }


def test_array_items_have_a_bit_each():
    bits = Components(sa.service_rec).bits
    assert bits["service_data8"] == 0xFFFF << 7
    assert bits["service_data16"] == 0xFF << 23
    assert bits["service_data32"] == 0xF << 31
    assert bits["service_data64"] == 0b11 << 35


RECORDS = (
    sa.path_rec, sa.mcmember_rec, sa.node_rec, sa.portinfo_rec, sa.service_rec, sa.inform_info_rec,
)  # fmt: skip


@pytest.mark.parametrize("prm", RECORDS, ids=lambda prm: prm.__name__)
def test_a_full_mask_selects_every_bit_and_an_empty_one_none(prm):
    components = Components(prm)
    assert components.record_bits(ALL_BITS) == (1 << prm.bit_length) - 1
    assert components.record_bits(0) == 0
    selected = [components.record_bits(1 << bit) for bit in range(64)]
    assert sum(selected) == (1 << prm.bit_length) - 1


@pytest.mark.parametrize(
    ("prm", "size"),
    [
        *((mads.mad_hdr, 24), (mads.smp, 256), (mads.pma_mad, 256), (sa.sa_mad, 256)),
        *((mads.port_info, 64), (mads.node_info, 40), (mads.class_port_info, 72)),
        *((sa.mcmember_rec, 52), (sa.path_rec, 64), (sa.service_rec, 176), (sa.notice, 80)),
    ],
)
def test_sizes(prm, size):
    assert prm.size == size
