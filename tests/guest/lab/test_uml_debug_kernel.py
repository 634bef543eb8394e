"""User-Mode Linux that watches itself with KASAN and lockdep: a healthy device, and a hostile one.

``--linux TREE`` names its sources; their build, of some twelve minutes of a processor, is in the
cache. Those of Linux leave mlx5_ib out, see the guide.
"""

from __future__ import annotations

import pytest
from helpers.guest.built_kernels import uml_kernel

from emu.guests import Guest, GuestOptions
from emu.guests.errors import GuestError
from emu.instruments.outcome import Kind, findings

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(0)]

DEBUG = ("kasan", "lockdep", "kcov")
REPORTS = {Kind.KASAN, Kind.LOCKDEP, Kind.UBSAN, Kind.REFCOUNT, Kind.WARNING, Kind.OOPS}
WORK = """
unshare -n sleep 300 & other=$!
sleep 1
ip link set eth1 netns $other
nsenter -t $other -n ip address add 10.9.0.2/24 dev eth1
nsenter -t $other -n ip link set eth1 up
ip address add 10.9.0.1/24 dev eth0
ip link set eth0 up
ping -c 4 -i 0.2 -w 60 10.9.0.2 && ping -c 2 -s 20000 -w 60 10.9.0.2 || exit 1
kill $other
ethtool -S eth0 > /tmp/statistics || exit 2
cd /sys/bus/pci/drivers/mlx5_core
for cycle in 1 2 3; do
    echo 0000:00:00.0 > unbind && echo 0000:00:00.0 > bind || exit 3
done
"""
TWICE = """
[[rule]]
point = "cmd.completion"
action = "duplicate"
match.op = "ALLOC_PD"
"""
"""As examples/faults/command-completed-twice.toml."""


@pytest.fixture(scope="module")
def kernel(request):
    return uml_kernel(request, "uml-debug", DEBUG)


def test_a_healthy_device_brings_no_report(kernel):
    with Guest(GuestOptions(**kernel, devices=("connectx6dx",) * 2)) as guest:
        guest.run(WORK, timeout=600).check()
        log = guest.dmesg()
    assert [one for one in findings(log) if one.kind in REPORTS] == []


def test_kasan_sees_memory_that_is_used_after_it_is_freed(kernel, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(TWICE)
    options = GuestOptions(**kernel, devices=("connectx6dx",), probe=False, faults=plan)
    with Guest(options) as guest:
        try:
            guest.run("modprobe mlx5_core; sleep 5", timeout=120)
            log = guest.dmesg()
        except GuestError:
            log = guest.console
    assert any(one.kind is Kind.KASAN for one in findings(log))
