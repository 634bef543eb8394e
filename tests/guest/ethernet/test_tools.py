"""What a kernel developer looks at an adapter with: trace events, debugfs, traps, clock, health."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.guest.guests import IN_PEER, no_complaints, prepared, run, two_namespaces

from emu.guests import GuestOptions

pytestmark = [pytest.mark.guest, pytest.mark.slow]

HERE, THERE = "10.0.1.1", "10.0.1.2"
UP = (
    two_namespaces("eth0", "eth1", HERE, THERE)
    + f"ping -c 1 -W 20 {THERE}\n"
    + "mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug\n"
    + "mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing"
)
DOWN = "ip netns del peer"
DEVICE = "pci/0000:01:00.0"
FOLDER = "/sys/kernel/debug/mlx5/0000:01:00.0"
COMMANDS = Path(__file__).parents[1] / "inside" / "tools.txt"
CLOCK = Path(__file__).parents[1] / "inside" / "clock.py"
COMMAND = f"""
import os
def put(name, text):
    file = os.open("{FOLDER}/cmd/" + name, os.O_WRONLY)
    os.write(file, text)
    os.close(file)
put("in", bytes.fromhex("010a").ljust(16, b"\\0"))
put("out_len", b"112")
put("run", b"go")
print(open("{FOLDER}/cmd/out", "rb").read().hex())
"""
"""QUERY_ISSI, by the driver's command interface for debugging (core/cmd.c: dbg_fops)."""


@pytest.fixture(scope="module")
def guest(lab, suite):
    """A guest with both interfaces up."""
    options = GuestOptions(suite=suite, devices=("connectx6dx", "connectx6dx-vf"))
    with prepared(lab, options, UP, DOWN) as guest:
        yield guest


@pytest.fixture(autouse=True)
def quiet(guest):
    """Neither the driver nor the server has anything to complain of."""
    with no_complaints(guest):
        yield


@pytest.mark.suite("bookworm", "trixie")
def test_trace_events_of_steering(guest):
    """diag/fs_tracepoint.c prints what a rule matches, and where it sends packets.

    Not on Linux 7.2, which panics on any adapter: its mlx5_fs_add_rule takes the number of a TIR
    for a counter's address (mlx5_fc_id).
    """
    out = run(
        guest,
        """
        cd /sys/kernel/tracing
        echo 1 > events/mlx5/enable
        ethtool -K eth0 ntuple on
        ethtool -N eth0 flow-type udp4 src-ip 10.9.8.7 dst-port 4660 action 1 loc 3
        ethtool -N eth0 delete 3
        echo 0 > events/mlx5/enable
        cat trace
        echo > trace""",
    )
    assert re.search(r"mlx5_fs_set_fte: .*10\.9\.8\.7.*4660|mlx5_fs_set_fte: .*0x1234", out, re.S)
    for event in ("mlx5_fs_add_rule", "mlx5_fs_del_rule", "mlx5_fs_del_fte"):
        assert f" {event}: " in out, event


def test_debugfs_can_be_read(guest):
    """Each file of the driver's, while queues and connections are there."""
    out = run(
        guest,
        f"cd {FOLDER}; find . -type f -perm -400 ! -path './commands/*' ! -path './cmd/*'"
        " | while read file; do timeout 5 head -c 999 $file > /tmp/read 2> /dev/null"
        " || echo refused $file; done; ls QPs CQs EQs | grep -c 0x",
    )
    assert "refused" not in out
    assert int(out.split()[-1]) > 9


def test_command_by_debugfs(guest, linux):
    counted = f"{FOLDER}/commands/QUERY_ISSI"
    out = run(
        guest,
        f"python3 -c '{COMMAND}'; cat {counted}/n; echo 1 > {counted}/reset; cat {counted}/n",
    )
    answer, number, after = out.split()
    assert answer[:16] == "0" * 16  # status, syndrome
    assert bytes.fromhex(answer)[-1] & 2  # ISSI 1 is supported
    assert int(number) >= 1
    assert after == "0" or linux == "6.1"  # which resets with another file


def test_traps_show_what_is_dropped(guest):
    """Frames of another VLAN, and to another MAC, which filters drop (core/en/trap.c)."""
    out = run(
        guest,
        f"""
        for trap in ingress_vlan_filter dmac_filter; do
            devlink trap set {DEVICE} trap $trap action trap
        done
        {IN_PEER}sh -c '
            ip link add link eth1 name v7 type vlan id 7
            ip address add 10.7.0.2/24 dev v7
            ip link set v7 up
            ip neighbour add 10.7.0.1 lladdr 02:00:00:00:00:98 dev v7
            ip neighbour add 10.0.1.9 lladdr 02:00:00:00:00:99 dev eth1
            for there in 10.7.0.1 10.0.1.9; do ping -c 2 -i 0.2 -W 1 $there > /dev/null; done
            ip link del v7'
        devlink -j -s trap show
        for trap in ingress_vlan_filter dmac_filter; do
            devlink trap set {DEVICE} trap $trap action drop
        done
        ping -c 1 -W 20 {THERE} > /dev/null""",
    )
    counted = {
        trap["name"]: trap["stats"]["rx"]["packets"] for trap in json.loads(out)["trap"][DEVICE]
    }
    assert counted["ingress_vlan_filter"] >= 2
    assert counted["dmac_filter"] >= 2


@pytest.mark.parametrize("reporter", ["tx", "rx"])
def test_dump_of_queues(guest, reporter):
    """A health reporter's diagnosis and its dump, with the resources' contexts."""
    where = re.search(r"(\S+): type eth netdev eth0", run(guest, "devlink port show")).group(1)
    out = run(guest, f"devlink health diagnose {where} reporter {reporter}")
    assert "HW state: 1" in out
    out = run(guest, f"devlink health dump show {where} reporter {reporter}")
    assert re.search(r"index: \d+\s+data:", out)


def test_clock(guest):
    """It starts with the system's time, can be set, moved, and made faster (core/lib/clock.c)."""
    guest.run("cat > /tmp/clock.py", stdin=CLOCK.read_bytes()).check()
    found = json.loads(run(guest, "python3 /tmp/clock.py"))
    assert abs(found["apart"]) < 1
    assert 1000 <= found["set"] < 1002
    assert 1500 <= found["moved"] < 1504
    assert abs(found["rate"] - 1) < 0.01
    assert abs(found["faster"] - found["rate"] - 0.03) < 0.01
    seconds = [device for _, device, _ in found["samples"]]
    assert seconds == sorted(seconds)


def test_suspend_and_resume(guest):
    """The driver takes its device down and brings it up again (core/main.c: mlx5_suspend)."""
    run(
        guest,
        f"""
        echo devices > /sys/power/pm_test
        echo mem > /sys/power/state
        echo none > /sys/power/pm_test
        ping -c 1 -W 20 {THERE}""",
    )


def test_pages_are_counted(guest):
    """The host's memory that the firmware has, and what mlx5_ib has registered of it."""
    firmware, registered = run(
        guest, "cd /sys/class/infiniband/mlx5_0; cat fw_pages reg_pages"
    ).split()
    assert firmware.isdecimal()
    assert registered.isdecimal()


def test_name_of_the_node(guest):
    """Whoever manages the host may describe it (mlx5_ib main.c: mlx5_ib_modify_device)."""
    out = run(
        guest,
        """
        cd /sys/class/infiniband/mlx5_0
        before=$(cat node_desc)
        echo "by hand" > node_desc
        cat node_desc
        echo "$before" > node_desc""",
    )
    assert out.strip() == "by hand"


@pytest.mark.suite("trixie")
def test_commands_of_tools(lab, suite):
    """ethtool, dcb, devlink, tc, lldpad: each ends, and those behind ! are refused."""
    options = GuestOptions(suite=suite, devices=("connectx6dx",), packages=("lldpad",))
    guest = lab.get(options)
    run(guest, "ip link set eth0 up; lldpad -d; sleep 2")
    lines = COMMANDS.read_text().splitlines()
    found = []
    for line in lines:
        command = line.removeprefix("! ")
        result = guest.run(f"timeout 30 {command}", timeout=60)
        found.append(f"! {command}" if result.status else command)
    assert "\n".join(found) == "\n".join(lines)
