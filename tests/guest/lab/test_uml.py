"""User-Mode Linux: the same lab with a kernel that is a process.

``--linux TREE`` names its sources, or a build of it; the build of sources is in the cache. Those of
Linux leave mlx5_ib out of such a kernel, see the guide.
"""

from __future__ import annotations

import hashlib

import pytest
from helpers.guest.built_kernels import uml_kernel

from emu.guests import Guest, GuestOptions
from emu.guests.errors import GuestStoppedError

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(0)]

PING = """
unshare -n sleep 60 & other=$!
sleep 0.5
ip link set eth1 netns $other
nsenter -t $other -n ip address add 10.9.0.2/24 dev eth1
nsenter -t $other -n ip link set eth1 up
ip address add 10.9.0.1/24 dev eth0
ping -c 4 -i 0.2 -w 20 10.9.0.2 && ping -c 2 -s 20000 -w 20 10.9.0.2
status=$?
kill $other
exit $status
"""
CYCLES = """
cd /sys/bus/pci/drivers/mlx5_core
for cycle in 1 2 3 4 5 6 7 8 9 10; do
    echo 0000:00:00.0 > unbind && echo 0000:00:00.0 > bind || exit 1
done
test -d /sys/bus/pci/devices/0000:00:00.0/net
"""


@pytest.fixture(scope="module")
def kernel(request):
    """What ``--kernel`` means by the build."""
    return uml_kernel(request, "uml")


@pytest.fixture(scope="module")
def guest(kernel):
    with Guest(GuestOptions(**kernel, devices=("connectx6,link=eth",) * 2)) as one:
        yield one


def test_a_ping_from_function_to_function(guest):
    result = guest.run(PING, timeout=120).check()
    assert result.stdout.count(" 0% packet loss") == 2


def test_the_driver_comes_and_goes(guest):
    guest.run(CYCLES, timeout=120).check()
    assert "WARNING" not in guest.dmesg()


def test_input_that_is_longer_than_a_terminal_holds(guest):
    data = bytes(range(256)) * 1000
    expected = hashlib.md5(data, usedforsecurity=False).hexdigest()
    assert guest.run("md5sum", stdin=data).check().stdout.split() == [expected, "-"]


def test_directories_of_the_host(kernel, tmp_path):
    share, out = tmp_path / "share", tmp_path / "out"
    for path in (share, out):
        path.mkdir()
    (share / "given").write_text("from the host")
    options = GuestOptions(**kernel, devices=(), share=share, out=out)
    with Guest(options) as one:
        one.run("cp /mnt/share/given /mnt/out/taken; ! touch /mnt/share/new").check()
    assert (out / "taken").read_text() == "from the host"


def test_a_guest_that_powers_off(kernel):
    with (
        Guest(GuestOptions(**kernel, devices=())) as one,
        pytest.raises(GuestStoppedError, match="powered off"),
    ):
        one.run("/run/mlx5emu/busybox poweroff -f")


def test_a_fault_that_strikes(kernel, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        '[[rule]]\npoint = "cmd"\naction = "fail"\nmatch.op = "CREATE_EQ"\ntimes = 1\n'
        'status = "NO_RES_ERR"\n'
    )
    with Guest(GuestOptions(**kernel, devices=("connectx6,link=eth",), faults=plan)) as one:
        assert "CREATE_EQ" in one.dmesg()
