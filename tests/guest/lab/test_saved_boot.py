"""Guests that go on from a saved boot: like one that boots, and each one for itself."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import replace

import pytest

from emu.guests import Guest, GuestOptions
from emu.guests.machine import saved

pytestmark = pytest.mark.guest

SLACK = 10.0
"""Seconds by which a guest's clock may differ from the host's time of day when it started."""
TOLD = "mlx5emu: resumed from a saved boot"
COUNTS = re.compile(r"\d+")
COMPLAINT = re.compile(r":(warn|err|crit|alert|emerg) ")
LOOKS = {
    "the devices and their places": "lspci -n; lspci -t",
    "the adapters": "ibv_devinfo -l | tail -n +2; cd /sys/class/infiniband; grep . */node_guid",
    "the interfaces": "cd /sys/class/net; grep . */address | sort",
    "the memory": "grep -E 'HugePages_Total|MemTotal' /proc/meminfo",
    "the disks": "grep -E ' / | /mnt/share ' /proc/mounts; cat /mnt/share/file; touch /root/x",
    "the kernel's words": "cat /proc/cmdline",
}


@pytest.fixture(scope="module")
def options(suite, tmp_path_factory):
    """All that a guest can have for itself, on a machine that no other test has."""
    share = tmp_path_factory.mktemp("share")
    (share / "file").write_text("here\n")
    return GuestOptions(
        suite=suite,
        devices=("connectx6", "connectx6dx,link=eth"),
        share=share,
        network=True,
        hugepages=4,
        memory_mib=1536,
    )


@contextlib.contextmanager
def saved_at_once():
    """The first guest of a machine has its boot saved, as the second one has by default."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved, "should_save", lambda _name: True)
        yield


def clock_offset():
    """Return the host's time of day minus its monotonic clock, which steps do not change."""
    return time.time() - time.monotonic()


@pytest.fixture(scope="module")
def offsets():
    """Clock offsets of the host before and after the start of each of the guests, in order."""
    return []


@pytest.fixture(scope="module")
def guests(lab, options, offsets):
    """A guest that boots, and two that go on from a saved boot."""
    with contextlib.ExitStack() as stack, saved_at_once():

        def start(chosen):
            before = clock_offset()
            guest = stack.enter_context(Guest(chosen))
            offsets.append((before, clock_offset()))
            return guest

        cold = start(replace(options, cold=True))
        if not cold.is_emulated:
            pytest.skip("boots are saved where processors are emulated")
        yield cold, start(options), start(options)


def test_they_are_what_a_boot_makes_of_them(guests):
    cold, first, second = guests
    assert [TOLD in guest.dmesg() for guest in guests] == [False, True, True]
    for what, command in LOOKS.items():
        booted = cold.run(command).check().stdout
        assert booted, what
        assert first.run(command).check().stdout == booted, what
        assert second.run(command).check().stdout == booted, what


def test_bridges_are_as_the_firmware_leaves_them(guests):
    """The kernel reconfigures none of them (drivers/pci/probe.c: pci_scan_bridge_extend)."""
    for guest in guests:
        assert "bridge configuration invalid" not in guest.dmesg()


def test_nobody_complains_who_does_not_in_a_boot(guests):
    cold, *others = (guest.run("dmesg --notime --decode").check().stdout for guest in guests)
    known = {COUNTS.sub("", line) for line in cold.splitlines()}
    for log in others:
        since = log.partition(TOLD)[2].splitlines()
        complaints = {COUNTS.sub("", line) for line in since if COMPLAINT.search(line)}
        assert since
        assert complaints <= known


def test_their_clocks_are_right_and_their_random_numbers_their_own(guests, offsets):
    """They run on from the host's time of day at their start, whatever the host's does later."""
    numbers = set()
    for guest, found in zip(guests, offsets, strict=True):
        before = time.monotonic() + min(found)
        now, number = guest.run("date +%s; cat /proc/sys/kernel/random/uuid").stdout.split()
        assert before - SLACK < int(now) < time.monotonic() + max(found) + SLACK
        numbers.add(number)
    assert len(numbers) == len(guests)


def test_what_one_writes_no_other_sees(guests):
    _, first, second = guests
    first.run("echo one > /etc/mark; sync").check()
    assert second.run("cat /etc/mark").status != 0


def test_one_boots_from_the_start_when_it_reboots(guests):
    _, first, _ = guests
    devices = first.run("lspci -n").stdout
    first.reboot()
    assert TOLD not in first.dmesg()
    assert first.run("lspci -n").stdout == devices
    assert first.run("cat /mnt/share/file").stdout == "here\n"


@pytest.mark.parametrize(("choice", "modules", "bound"), [
    ({"probe": False}, 0, 0),
    ({"hold_probe": True}, 1, 0),
])  # fmt: skip
def test_the_driver_waits_where_it_is_to(guests, options, choice, modules, bound):
    chosen = replace(options, **choice)
    with saved_at_once(), Guest(chosen) as guest:  # without the driver it is another machine
        assert TOLD in guest.dmesg()
        loaded, taken = guest.run(
            "grep -c ^mlx5_core /proc/modules; ls -d /sys/bus/pci/drivers/mlx5_core/0* | wc -l"
        ).stdout.split()
        assert (int(loaded), int(taken)) == (modules, bound)
        guest.probe()
        assert guest.run("ls -d /sys/bus/pci/drivers/mlx5_core/0* | wc -l").stdout == "2\n"
