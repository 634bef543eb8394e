"""The GID table of an Ethernet port, as mlx5_ib fills it (core/lib/gid.c, hw/main.c)."""

from dataclasses import replace

import pytest
from helpers.device.snapshot import snapshot
from hypothesis import given
from hypothesis import strategies as st

from emu.device.models import MODELS
from emu.driver.nodes.roce import MODEL, V1, V2, clear_address, ipv4, ipv6, set_address
from layouts.enums.caps import CapType
from layouts.enums.cmd import Op, Status
from layouts.function import roce as layout
from layouts.function.eth_caps import roce_cap

MAC = bytes.fromhex("0002c9abcd01")


@pytest.fixture
def model():
    return MODEL


def queried(driver, index):
    return driver.must(Op.QUERY_ROCE_ADDRESS, roce_address_index=index).roce_address


def test_what_the_driver_is_offered(driver):
    group = driver.must(Op.QUERY_HCA_CAP, op_mod=CapType.ROCE << 1)
    found = roce_cap.view(group.capability)
    assert found.roce_version == 0b101, "versions 1 and 2"
    assert found.l3_type == 0b110, "mlx5_ib wants both IPv4 and IPv6"
    assert found.r_roce_dest_udp_port == 4791
    assert found.roce_address_table_size == 255


def test_an_entry_is_kept_as_it_was_set(driver, function):
    assert not set_address(driver, 3, ipv4(1), MAC, vlan=7).status
    entry = queried(driver, 3)
    assert bytes(entry.source_l3_address) == ipv4(1)
    assert (entry.source_mac_47_32 << 32 | entry.source_mac_31_0).to_bytes(6, "big") == MAC
    assert (entry.vlan_valid, entry.vlan_id) == (1, 7)
    assert (entry.roce_l3_type, entry.roce_version) == (0, 2)
    assert function.hca.gids.has(MAC, 7, ipv4(1), V2)
    assert not set_address(driver, 254, ipv6(1), MAC).status
    assert queried(driver, 254).roce_l3_type == 1
    assert queried(driver, 254).vlan_valid == 0


def test_an_empty_address_empties_the_entry(driver, function):
    """The driver leaves the version set (core/lib/gid.c: mlx5_core_roce_gid_set)."""
    set_address(driver, 0, ipv6(1), MAC)
    assert not clear_address(driver, 0).status
    assert function.hca.gids[0].is_empty
    assert not function.hca.gids.has(MAC, None, ipv6(1), V2)
    assert queried(driver, 0).roce_version == 2


def test_an_address_may_be_there_twice(driver, function):
    set_address(driver, 0, ipv6(1), MAC)
    set_address(driver, 1, ipv6(1), MAC)
    clear_address(driver, 0)
    assert function.hca.gids.has(MAC, None, ipv6(1), V2)


@pytest.mark.parametrize("gid", [ipv4(1), ipv6(1)])
@pytest.mark.parametrize("l3_type", [0, 1])
def test_an_address_of_version_1(driver, function, gid, l3_type):
    """Both kinds of addresses are GIDs of the same header; the driver has type 0 for both."""
    assert not set_address(driver, 2, gid, MAC, version=V1, roce_l3_type=l3_type).status
    assert queried(driver, 2).roce_version == 0
    assert function.hca.gids.has(MAC, None, gid, V1)
    assert not function.hca.gids.has(MAC, None, gid, V2)
    assert not set_address(driver, 3, gid, MAC).status
    assert function.hca.gids.has(MAC, None, gid, V1)
    assert function.hca.gids.has(MAC, None, gid, V2)


def test_the_table_is_empty_after_a_teardown(driver, function):
    set_address(driver, 0, ipv6(1), MAC)
    driver.must(Op.TEARDOWN_HCA)
    assert function.hca.gids[0].is_empty
    assert not function.hca.gids.macs


@pytest.mark.hostile
@pytest.mark.parametrize(
    ("fields", "mac"),
    [
        ({"roce_version": 1}, MAC),
        ({"roce_version": 3}, MAC),
        ({"roce_version": 255}, MAC),
        ({"roce_l3_type": 1}, MAC),
        ({}, bytes(6)),
        ({}, b"\x01" + MAC[1:]),
        ({"vlan_valid": 1, "vlan_id": 0}, MAC),
        ({"vlan_valid": 1, "vlan_id": 4095}, MAC),
    ],
)
def test_an_address_that_cannot_be_is_refused(driver, function, fields, mac):
    before = snapshot(function.hca)
    assert set_address(driver, 0, ipv4(1), mac, **fields).status == Status.BAD_PARAM_ERR
    assert snapshot(function.hca) == before


@pytest.mark.hostile
def test_an_address_of_ipv6_is_no_ipv4(driver, function):
    """Only the manager of a switch has one of that type (core/rdma.c: mlx5_rdma_add_roce_addr)."""
    assert set_address(driver, 0, ipv6(1), MAC, roce_l3_type=0).status == Status.BAD_PARAM_ERR
    assert function.hca.gids[0].is_empty


@pytest.mark.hostile
@pytest.mark.parametrize("op", [Op.SET_ROCE_ADDRESS, Op.QUERY_ROCE_ADDRESS])
def test_beyond_the_end_of_the_table(refused, op):
    refused(Status.BAD_PARAM_ERR, op, roce_address_index=255)
    refused(Status.BAD_PARAM_ERR, op, roce_address_index=0, vhca_port_num=2)


@pytest.mark.hostile
@given(data=st.binary(min_size=layout.roce_addr_layout.size, max_size=layout.roce_addr_layout.size))
def test_random_addresses_are_refused_or_kept(driver_once, data):
    driver, function = driver_once
    before = snapshot(function.hca)
    answer = driver.command(Op.SET_ROCE_ADDRESS, roce_address=data)
    if answer.status:
        assert answer.status == Status.BAD_PARAM_ERR
        assert snapshot(function.hca) == before
    else:
        view = layout.roce_addr_layout.view(bytearray(data))
        assert function.hca.gids[0].gid == bytes(view.source_l3_address)


@pytest.fixture(scope="module")
def driver_once():
    from emu.driver.nodes.roce import on_one_segment
    from emu.driver.world.clock import HandClock

    (node,) = on_one_segment(HandClock(), 1)
    return node.driver, node.function


class TestWithoutRoce:
    @pytest.fixture
    def model(self):
        return MODELS["connectx6"]

    @pytest.mark.parametrize("op", [Op.SET_ROCE_ADDRESS, Op.QUERY_ROCE_ADDRESS])
    def test_there_is_no_table(self, refused, op):
        refused(Status.BAD_OP_ERR, op)


class TestTurnedOff:
    @pytest.fixture
    def model(self):
        return replace(MODEL, general={**MODEL.general, "roce": 0}, roce={})

    def test_neither_table_nor_roce_en(self, refused):
        refused(Status.BAD_OP_ERR, Op.SET_ROCE_ADDRESS)
        refused(
            Status.BAD_PARAM_ERR, Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"roce_en": 1},
            nic_vport_context={"roce_en": 1},
        )  # fmt: skip
