"""An Ethernet port and a vPort of it: address, link, what is counted."""

import pytest

from emu.device.port.eth.port import EthPort
from emu.device.port.eth.traffic import BROADCAST, dscp_of
from emu.device.port.eth.vport import NicVport, mac_of

MAC = bytes.fromhex("0002c9e50010")


def vport():
    return NicVport(EthPort(), 0x0002_C903_00E5_0010, MAC)


def test_address_is_the_guids():
    assert mac_of(0x0002_C903_00E5_0010) == MAC


def test_address_is_never_a_groups():
    assert mac_of((1 << 64) - 1) == bytes.fromhex("feffffffffff")


@pytest.mark.parametrize(("admin", "cable"), [(True, False), (False, True), (False, False)])
def test_link_needs_the_driver_and_the_cable(admin, cable):
    own = vport()
    port = own.port
    assert port.is_up
    assert own.is_up
    port.set_admin(up=admin)
    port.set_link(up=cable)
    assert not port.is_up
    assert not own.is_up
    assert port.link_downed == 1
    port.set_admin(up=True)
    port.set_link(up=True)
    assert own.is_up
    assert port.link_downed == 1


def test_a_vport_that_is_down_leaves_the_port_up():
    own = vport()
    own.admin_up = False
    assert not own.is_up
    assert own.port.is_up


def test_frames_are_counted_by_destination():
    way = vport().sent
    for first in (MAC, BROADCAST, bytes.fromhex("33330000fb01")):
        way.add(first + bytes(54))
    casts = (way.unicast, way.broadcast, way.multicast)
    assert [(cast.packets, cast.octets) for cast in casts] == [(1, 60)] * 3
    assert (way.packets, way.octets) == (3, 180)


@pytest.mark.parametrize(
    ("size", "bucket"), [(60, 0), (61, 1), (123, 1), (124, 2), (1514, 5), (1515, 6), (10236, 10)]
)
def test_frames_are_counted_by_size_with_their_check_sequence(size, bucket):
    way = vport().received
    way.add(MAC + bytes(size - 6))
    assert [index for index, frames in enumerate(way.sizes) if frames] == [bucket]


def test_super_frame_counts_as_those_it_stands_for():
    way = vport().sent
    way.add(MAC + bytes(3000), packets=3, octets=3000 + 2 * 54)
    assert (way.unicast.packets, way.unicast.octets) == (3, 3108)
    assert way.sizes[5] == 3


@pytest.mark.parametrize("ethertype", [b"\x08\x00", b"\x86\xdd"])
@pytest.mark.parametrize("tag", [b"", b"\x81\x00\xe0\x05"])
@pytest.mark.parametrize("size", [0, 1])
def test_a_frame_that_ends_before_its_dscp_has_none(ethertype, tag, size):
    assert dscp_of(bytes(12) + tag + ethertype + b"\xff" * size) == 0
