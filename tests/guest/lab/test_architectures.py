"""Guests of other architectures: big-endian, and with pages of 16 and 64 KiB."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.guest.architectures import (
    BOOT_SECONDS,
    KINDS,
    KNOWN,
    needs_verbs,
    parameters,
    processors,
)
from helpers.guest.guests import (
    FEW_KEYS,
    SECONDS,
    addresses_ready,
    no_complaints_since_boot,
    pings,
    reaches,
    run,
    running,
    two_namespaces,
)
from helpers.guest.kernel_log import RECOVERY, KernelLog
from helpers.guest.traffic_tools import PINGPONGS

from emu.guests import Guest, GuestOptions
from emu.guests.architecture import ARCHITECTURES
from emu.guests.machine import qemu

pytestmark = pytest.mark.guest

ROOT = Path(__file__).parents[3]
FINDINGS = ROOT / "examples" / "findings"
DEVICES = ("connectx6", "connectx6dx", "connectx6dx-vf")
QUICK = ("s390x", "arm64-16k")
UP = two_namespaces("eth0", "eth1", "10.0.0.1", "10.0.0.2") + addresses_ready("eth0", "eth1")
RELOAD = """
modprobe -r mlx5_ib && modprobe -r mlx5_core && modprobe -a mlx5_core mlx5_ib
until [ -d /sys/class/infiniband/mlx5_0 ]; do sleep 0.1; done
"""
WRITES = "ib_write_bw -d mlx5_0 -x 3 -F -n 50 -s 65536"
SHIFT = "shift exponent 32 is too large for 32-bit type"
SHIFTS = re.compile(
    r"cut here|UBSAN: shift-out-of-bounds in .*/mlx5/core/cmd\.c|Call trace| from \w+\+0x"
)
"""What UBSAN reports of mlx5_cmd_enable and its callers."""


@pytest.fixture(scope="module", params=parameters(QUICK, without_verbs=True))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def guest(lab, name):
    """Not one of the shared guests, which are the host's; no boot of it can be saved."""
    options = GuestOptions(
        arch=name,
        suite=KINDS[name][0],
        cpus=processors(name),
        devices=DEVICES,
        kernel_arguments=FEW_KEYS,
        boot_timeout=BOOT_SECONDS,
    )
    with Guest(options) as guest:
        yield guest


@pytest.fixture
def verbs_guest(guest, name):
    needs_verbs(name)
    return guest


def against_itself(guest, command):
    """Run a program of verbs as server and as client, which exchange addresses by TCP."""
    listens = "until ss -Hltn sport = :18515 | grep -q LISTEN; do sleep 0.1; done"
    run(guest, f"{command} > /dev/null & {listens}; {command} 127.0.0.1 && wait $!")


def test_processor_and_pages(guest, name):
    said = run(
        guest, "python3 -c 'import resource, sys; print(resource.getpagesize(), sys.byteorder)'"
    )
    assert said.split() == [*map(str, KINDS[name][1:])]


def test_what_scripts_of_packages_would_make(guest):
    names = "awk bash cmp diff getconf grep gzip hostname perl sed seq tar"
    run(guest, f"for name in {names}; do command -v $name || exit; done")
    run(guest, "id _rpc && id statd && cd /usr/local/bin && cd /srv")


@pytest.mark.parametrize("service", ["rc", "rc with events", "uc", "ud", "srq"])
def test_pingpong(verbs_guest, service):
    """Data that the programs compare (-c)."""
    against_itself(verbs_guest, f"{PINGPONGS[service]} -d mlx5_0")


@pytest.mark.parametrize(
    "command", ["ib_write_bw -n 20 -s 65536", "ib_read_bw -n 5 -s 1048576", "ib_atomic_bw -n 20"]
)
def test_perftest(verbs_guest, command):
    against_itself(verbs_guest, f"{command} -F -d mlx5_0")


def test_pages_on_demand(verbs_guest, name):
    """On POWER the kernel refuses them, for the reason that the finding tells."""
    if name.startswith("ppc64el"):
        said = run(verbs_guest, (FINDINGS / "paging-refused-on-power.sh").read_text())
        assert "Couldn't register MR" in said
        return
    against_itself(verbs_guest, "ibv_rc_pingpong -d mlx5_0 -o -c -n 50")


def test_the_subnet_prefix_that_rdma_prints(guest, name):
    """iproute2 prints it in reverse on big-endian; the kernel does not."""
    gid = "/sys/class/infiniband/mlx5_0/ports/1/gids/0"
    assert run(guest, f"cat {gid}").startswith("fe80:")
    prefix = "0000:0000:0000:fe80" if KINDS[name][2] == "big" else "fe80:0000:0000:0000"
    assert f"subnet_prefix {prefix} " in run(guest, "rdma link show mlx5_0/1")


def test_ipoib_and_rdma_cm(verbs_guest):
    run(
        verbs_guest,
        """
        modprobe ib_ipoib; until ip link set ib0 up; do sleep 0.1; done 2>/dev/null
        ip address replace 10.1.0.1/24 dev ib0
        until grep -q 1 /sys/class/net/ib0/carrier; do sleep 0.1; done 2>/dev/null
        rping -s -a 10.1.0.1 -C 5 -V & sleep 1; rping -c -a 10.1.0.1 -C 5 -V && wait $!
        """,
    )


def test_frames_between_two_functions(guest):
    run(guest, f"set -e\n{UP}")
    pings(guest, "-s 8000 10.0.0.2")
    run(guest, "ip link set eth0 mtu 9000; ip -n peer link set eth1 mtu 9000")
    pings(guest, "-s 8900 -M do 10.0.0.2")
    run(
        guest,
        "ip netns exec peer iperf3 -s -1 -D > /dev/null;"
        " until ip netns exec peer ss -Hltn sport = :5201 | grep -q LISTEN; do sleep 0.1; done;"
        " iperf3 -c 10.0.0.2 -n 4M && ip netns del peer",
    )


def test_the_driver_loads_again_without_a_complaint(guest):
    run(guest, RELOAD)
    no_complaints_since_boot(guest, known=KNOWN)


def test_a_function_level_reset(guest, name):
    """Behind the driver's back, which recovers at its next health poll."""
    path = run(guest, "readlink -f /sys/class/infiniband/mlx5_0/device").strip()
    reporter = f"pci/{Path(path).name} reporter fw_fatal"
    run(guest, f"devlink health set {reporter} grace_period 0")
    log = KernelLog(guest)
    run(guest, f"echo 1 > {path}/reset")
    log.wait_for("health recovery succeeded", SECONDS)
    run(guest, "until rdma link show mlx5_0/1 | grep -q 'state ACTIVE'; do sleep 0.2; done")
    assert "error 1 recover 1" in run(guest, f"devlink health show {reporter}")
    if ARCHITECTURES[name].has_verbs:
        against_itself(guest, f"{PINGPONGS['rc']} -d mlx5_0")
    # A poll before the PCI core restores the command register reads all ones: fatal error 1
    # (core/health.c). A physical function waits for no pages of others then (core/pagealloc.c).
    during = "Fatal error 1 detected|PCI slot is unavailable|Skipping wait for .* pages stage"
    known = re.compile(f"{RECOVERY.pattern}|{KNOWN.pattern}|{during}")
    assert [line for line in log.complaints() if not known.search(line)] == []


@pytest.mark.slow
@pytest.mark.suite("sid")
@pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name][0] != "sid"])
def test_sids_kernel_loads_the_driver_again_without_a_complaint(lab, name, suite):
    """On 32 bits Linux 7.2 reports a finding in each probe; the driver of ARM goes on."""
    options = GuestOptions(arch=name, suite=suite, boot_timeout=BOOT_SECONDS)
    with Guest(options) as guest:
        run(guest, RELOAD)
        has_longs_of_32_bits = name == "armhf"
        assert (SHIFT in run(guest, "dmesg")) is has_longs_of_32_bits
        no_complaints_since_boot(guest, known=SHIFTS if has_longs_of_32_bits else KNOWN)


@pytest.mark.slow
def test_qemu_aborts_with_one_function_on_power(tmp_path):
    """Two are the smallest number for that reason (``Architecture.min_functions``)."""
    program = qemu.find(ARCHITECTURES["ppc64el"])
    if program is None:
        pytest.skip("no qemu-system-ppc64 with vfio-user-pci")
    script = FINDINGS / "one-function-on-power.sh"
    environ = os.environ | {"MLX5EMU": f"{sys.executable} -m emu"}
    done = subprocess.run(
        ["sh", script, *program.command], env=environ, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done
    assert "is not an instance of type vfio-iommu-legacy" in done.stderr


@pytest.mark.slow
def test_guests_of_both_byte_orders_exchange_data(lab, tmp_path):
    """By RoCE, over the fabric; all but ib_write_bw compare what they receive.

    ``rstream`` sends its data by RDMA WRITE, ``rping`` by READ and by WRITE.
    """
    fabric = {"devices": ("connectx6dx",), "fabric": f"unix:{tmp_path / 'fabric'}"}
    big = GuestOptions(arch="s390x", suite="sid", boot_timeout=BOOT_SECONDS, **fabric)
    with running(GuestOptions(**fabric), big) as guests:
        for number, guest in enumerate(guests, 1):
            run(guest, f"ip address add 10.0.0.{number}/24 dev eth0; ip link set eth0 up")
        reaches(guests[0], "10.0.0.2")
        for server, client in (
            ("rping -s -a 10.0.0.2 -C 5 -V", "rping -c -a 10.0.0.2 -C 5 -V"),
            (f"{PINGPONGS['rc']} -d mlx5_0 -g 3", f"{PINGPONGS['rc']} -d mlx5_0 -g 3 10.0.0.2"),
            ("rstream -T v -S 65536 -C 50", "rstream -s 10.0.0.2 -T v -S 65536 -C 50"),
            (WRITES, f"{WRITES} 10.0.0.2"),
        ):
            job = guests[1].popen(server)
            run(guests[0], f"sleep 2; {client}")
            assert guests[1].wait(job, timeout=SECONDS) == 0, server
