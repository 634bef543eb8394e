"""The functions of a server in their order, their sockets, and where there can be none."""

from pathlib import Path

import pytest

from emu.server.service.devicespec import DeviceSpecError, parse_all
from emu.server.service.endpoints import ServedDevice, check_vfs, names_of_guests, with_vfs

SPECS = parse_all(["connectx6dx,vfs=1", "connectx6", "connectx6,vfs=2"])


def test_virtual_functions_come_after_all_devices():
    devices = [ServedDevice(Path(f"/x/f{at}"), spec) for at, spec in enumerate(SPECS)]
    made = with_vfs(devices)
    assert made[:3] == devices
    assert [(one.pf, one.vf, str(one.socket)) for one in made[3:]] == [
        (0, 0, "/x/f0.vf0"),
        (2, 0, "/x/f2.vf0"),
        (2, 1, "/x/f2.vf1"),
    ]
    assert names_of_guests(made, ["a", "b", "c"]) == ["a", "b", "c", "a", "c", "c"]
    assert names_of_guests(made, []) == []


@pytest.mark.parametrize("transport", ["libvfio-user", "vhost-user"])
def test_only_our_own_server_places_them(transport):
    with pytest.raises(DeviceSpecError, match=f"not supported with --transport {transport}"):
        check_vfs(SPECS, transport, has_subnet=False)
    check_vfs(SPECS[1:2], transport, has_subnet=False)


def test_a_subnet_from_a_file_has_none():
    check_vfs(SPECS, "vfio-user", has_subnet=False)
    check_vfs(SPECS[:2], "vfio-user", has_subnet=True)
    with pytest.raises(DeviceSpecError, match="--subnet"):
        check_vfs(SPECS, "vfio-user", has_subnet=True)
