"""An Ethernet port: its address, its link, what it counts."""

import pytest

from emu.device.port.eth.port import BROADCAST, EthPort, dscp_of, mac_of

MAC = bytes.fromhex("0002c9e50010")


def port():
    return EthPort(0x0002_C903_00E5_0010, MAC)


def test_address_is_the_guids():
    assert mac_of(0x0002_C903_00E5_0010) == MAC


def test_address_is_never_a_groups():
    assert mac_of((1 << 64) - 1) == bytes.fromhex("feffffffffff")


@pytest.mark.parametrize(("admin", "cable"), [(True, False), (False, True), (False, False)])
def test_link_needs_the_driver_and_the_cable(admin, cable):
    own = port()
    assert own.is_up
    own.set_admin(up=admin)
    own.set_link(up=cable)
    assert not own.is_up
    assert own.link_downed == 1
    own.set_admin(up=True)
    own.set_link(up=True)
    assert own.is_up
    assert own.link_downed == 1


def test_frames_are_counted_by_destination():
    way = port().sent
    for first in (MAC, BROADCAST, bytes.fromhex("33330000fb01")):
        way.add(first + bytes(54))
    casts = (way.unicast, way.broadcast, way.multicast)
    assert [(cast.packets, cast.octets) for cast in casts] == [(1, 60)] * 3
    assert (way.packets, way.octets) == (3, 180)


@pytest.mark.parametrize(
    ("size", "bucket"), [(60, 0), (61, 1), (123, 1), (124, 2), (1514, 5), (1515, 6), (10236, 10)]
)
def test_frames_are_counted_by_size_with_their_check_sequence(size, bucket):
    way = port().received
    way.add(MAC + bytes(size - 6))
    assert [index for index, frames in enumerate(way.sizes) if frames] == [bucket]


def test_super_frame_counts_as_those_it_stands_for():
    way = port().sent
    way.add(MAC + bytes(3000), packets=3, octets=3000 + 2 * 54)
    assert (way.unicast.packets, way.unicast.octets) == (3, 3108)
    assert way.sizes[5] == 3


@pytest.mark.parametrize("ethertype", [b"\x08\x00", b"\x86\xdd"])
@pytest.mark.parametrize("tag", [b"", b"\x81\x00\xe0\x05"])
@pytest.mark.parametrize("size", [0, 1])
def test_a_frame_that_ends_before_its_dscp_has_none(ethertype, tag, size):
    assert dscp_of(bytes(12) + tag + ethertype + b"\xff" * size) == 0
