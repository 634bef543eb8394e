"""Every file that the adapters have in sysfs and debugfs can be read, and says nothing in dmesg."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from helpers.guest.guests import no_complaints, prepared, run
from helpers.guest.kernel_log import KernelLog

from emu.guests import GuestOptions

pytestmark = pytest.mark.guest

PROGRAM = Path(__file__).parents[1] / "inside" / "read_all.py"
DEVICES = ("connectx6dx", "connectx6dx-vf", "connectx6", "connectx6-vf")
UP = """
mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
modprobe ib_umad
ip link set eth0 up
ip link set eth1 up
until ip link show eth0 | grep -q LOWER_UP && ip link show eth1 | grep -q LOWER_UP
do
    sleep 0.1
done
"""
ADDRESSES = "for one in /sys/bus/pci/drivers/mlx5_core/0*; do basename $one; done"
KERNELS_OWN = {
    r"/power/autosuspend_delay_ms$": ("EIO", "the device does not suspend by itself"),
    r"/resource0(_wc)?$": ("EIO", "memory of the device, which can only be mapped"),
    r"/cmd/in$": ("ENOMEM", "no command for debugging has been given (core/cmd.c: data_read)"),
    r"/net/eth\d/phys_(switch_id|port_id)$": ("ENOTSUP", "the port is not one of a switch"),
    r"/net/eth1/phys_port_name$": ("ENOTSUP", "a virtual function's port has no number"),
    r"/ports/1/gid_attrs/(ndevs|types)/\d+$": (
        "EINVAL", "an entry of the GID table that is empty, or that has no interface",
    ),
}  # fmt: skip
"""Files for which the kernel itself gives an error, by expression; with the error, and why."""


@pytest.fixture(scope="module")
def guest(lab, suite):
    """A physical and a virtual function of each link layer."""
    with prepared(lab, GuestOptions(suite=suite, devices=DEVICES), UP, ":") as guest:
        yield guest


def is_known(path, error):
    return any(
        re.search(pattern, path) and error == known for pattern, (known, _) in KERNELS_OWN.items()
    )


def test_all_files_can_be_read(guest):
    guest.run("cat > /tmp/read_all.py", stdin=PROGRAM.read_bytes()).check()
    addresses = run(guest, ADDRESSES).split()
    assert len(addresses) == len(DEVICES)
    log = KernelLog(guest)
    with no_complaints(guest):
        found = json.loads(run(guest, "python3 /tmp/read_all.py " + " ".join(addresses)))
    assert found["count"] > 1000
    failed = [one for one in found["failed"] if not is_known(*one)]
    assert Counter((re.sub(r"\d+$", "N", path), error) for path, error in failed) == {}
    assert [text for _, text in log.lines()] == []
