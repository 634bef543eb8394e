"""VFIO_USER_DEVICE_GET_REGION_INFO."""

import errno

import pytest

from emu.driver.transport.vfio_client import VfioRefusedError
from emu.server.vfio.protocol import REGION_INFO, RegionFlag, VfioCommand

RW = RegionFlag.READ | RegionFlag.WRITE


@pytest.mark.parametrize(
    ("index", "flags", "size"),
    [(0, RW, 1 << 16), (1, 0, 0), (2, RW, 4096), (6, 0, 0), (7, RW, 4096), (8, 0, 0)],
)
def test_regions_are_never_mappable(client, index, flags, size):
    assert client.region_info(index) == (32, flags, index, 0, size, 0)


def test_room_for_capabilities_changes_nothing(client):
    assert client.region_info(0, argsz=4096) == (32, RW, 0, 0, 1 << 16, 0)


@pytest.mark.parametrize("index", [9, 10, 0xFFFFFFFF])
def test_unknown_region_is_refused(own_client, index):
    with pytest.raises(VfioRefusedError) as refused:
        own_client.region_info(index)
    assert refused.value.errno == errno.EINVAL


def test_far_region_is_refused(client):
    with pytest.raises(VfioRefusedError) as refused:
        client.region_info(0xFFFFFFFF)
    assert refused.value.errno == errno.EINVAL


@pytest.mark.parametrize(
    "payload",
    [REGION_INFO.pack(31, 0, 0, 0, 0, 0), REGION_INFO.pack(32, 0, 0, 0, 0, 0)[:-1]],
    ids=["argsz", "short"],
)
def test_bad_request_is_refused(client, payload):
    with pytest.raises(VfioRefusedError) as refused:
        client.call(VfioCommand.DEVICE_GET_REGION_INFO, payload)
    assert refused.value.errno == errno.EINVAL
