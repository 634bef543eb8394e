"""The second transport under a guest: what the other tests here see, seen through libvfio-user."""

from __future__ import annotations

import pytest
from helpers.guest.kernel_log import KernelLog, server_complaints

from emu.server.vfio.base import TransportError
from emu.server.vfio.libvfio_abi import load_library

pytestmark = pytest.mark.guest

UNLOAD = "modprobe -r mlx5_ib mlx5_core"
ACTIVE = "until ibv_devinfo 2>/dev/null | grep -q PORT_ACTIVE; do sleep 0.1; done"
SECONDS = 120


@pytest.fixture(scope="module", autouse=True)
def library():
    try:
        load_library()
    except TransportError as error:
        pytest.skip(str(error))


@pytest.fixture
def start(boot):
    def start_one(device):
        return boot(devices=(device,), server_options=("--transport", "libvfio-user"))

    return start_one


def test_physical_function(start):
    guest = start("connectx6")
    guest.run(ACTIVE, timeout=SECONDS).check()
    assert KernelLog(guest, whole=True).complaints() == []
    assert server_complaints(guest) == []


def test_reboots(start):
    """Soft and hard, which is a reset by QEMU; the memory map goes and comes back."""
    guest = start("connectx6-vf")
    for again in (None, False, True):
        if again is not None:
            guest.reboot(hard=again)
        guest.run(ACTIVE, timeout=SECONDS).check()
        assert KernelLog(guest, whole=True).complaints() == []
    assert server_complaints(guest) == []


def test_traffic_and_reload(start):
    guest = start("connectx6-vf")
    command = "ibv_rc_pingpong -c -e -n 300"
    server = guest.popen(["sh", "-c", f"exec {command}"])
    client = (
        f"until grep -q ':4853 .* 0A ' /proc/net/tcp*; do sleep 0.02; done; {command} 127.0.0.1"
    )
    assert "300 iters in" in guest.run(client, timeout=SECONDS).check().stdout
    assert guest.wait(server, SECONDS) == 0
    for _ in range(3):
        guest.run(f"{UNLOAD}; modprobe mlx5_ib; {ACTIVE}", timeout=SECONDS).check()
    bdf = guest.run("lspci -D -d 15b3: | cut -d' ' -f1").check().stdout.strip()
    reset = f"{UNLOAD}; echo 1 > /sys/bus/pci/devices/{bdf}/reset; modprobe mlx5_ib; {ACTIVE}"
    guest.run(reset, timeout=SECONDS).check()
    assert server_complaints(guest) == []
