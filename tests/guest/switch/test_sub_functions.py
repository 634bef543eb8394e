"""Sub-functions (SF) in a guest: their life by devlink, their rates, and RDMA between them.

Each has an interface and an RDMA device of its own, and a representor in switchdev mode.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.guest.guests import run
from helpers.guest.sub_functions import (
    DEV,
    activate,
    add,
    clear,
    cross,
    ports,
    remove,
    set_mode,
    use,
    wait,
)

pytestmark = [pytest.mark.guest, pytest.mark.slow]

DEVX = Path(__file__).parents[1] / "inside" / "devx_events.py"


def test_a_life(guest):
    port, representor = add(guest, 88)
    told = ports(guest)[port]
    assert (told["function"]["state"], told["function"]["opstate"]) == ("inactive", "detached")
    device = activate(guest, port, "02:00:00:00:00:88")
    name, rdma = use(guest, device)
    assert "02:00:00:00:00:88" in run(guest, f"ip link show {name}")
    assert rdma in run(guest, "rdma link")
    assert json.loads(run(guest, f"ip -j -d link show {representor}"))[0]["phys_switch_id"]
    run(guest, f"devlink port function set {port} state inactive")
    wait(guest, port, "detached")
    run(guest, f"! ip link show {name}")
    assert activate(guest, port)
    run(guest, f"devlink port function set {port} state inactive")


def test_what_a_device_plugin_hands_to_a_pod(guest):
    """It finds a sub-function by its number: whose it is, its interface, its files for verbs."""
    port, _ = add(guest, 5)
    name, rdma = use(guest, activate(guest, port))
    (place,) = run(guest, "dirname $(grep -lx 5 /sys/bus/auxiliary/devices/*/sfnum)").split()
    assert run(guest, f"basename $(dirname $(readlink -f {place}))").strip() == DEV.split("/")[1]
    assert run(guest, f"ls {place}/net {place}/infiniband -1").split()[1::2] == [rdma, name]
    files = run(guest, f"ls {place}/infiniband_verbs {place}/infiniband_mad").split()
    kinds = ("uverbs", "umad", "issm")
    for file in (file for file in files if file.startswith(kinds)):
        run(guest, f"test -c /dev/infiniband/{file}")
    run(guest, f"ip netns add pod; ip link set {name} netns pod; ip -n pod link set {name} up")
    assert "PORT_ACTIVE" in run(guest, f"ip netns exec pod ibv_devinfo -d {rdma}")
    run(guest, "ip netns del pod; sleep 0.5")
    remove(guest, port)


@pytest.mark.parametrize("step", ["inactive", "active", "attached", "in use"])
def test_it_goes_in_every_state(guest, step):
    port, _ = add(guest, 7)
    if step == "active":
        run(guest, f"devlink port function set {port} state active")
    elif step != "inactive":
        device = activate(guest, port)
        if step == "in use":
            use(guest, device)
    remove(guest, port)
    assert not ports(guest)


def rdma_seconds(guest, pair, octets, more=""):
    """How long twenty messages take there and back."""
    one, two = pair
    options = f"-g 3 -n 20 -s {octets} {more}"  # RoCE v2 of the IPv4 address
    guest.popen(f"ip netns exec {one.space} timeout 100 ibv_rc_pingpong -d {one.rdma} {options}")
    run(guest, "until ss -Hltn -N sf1 sport = :18515 | grep -q LISTEN; do sleep 0.1; done")
    told = two.run(f"timeout 90 ibv_rc_pingpong -d {two.rdma} {options} {one.address}")
    found = re.search(r"20 iters in ([\d.]+) seconds", told)
    assert found, told
    return float(found[1])


def test_rdma_between_them(guest, pair):
    cross(guest, pair)
    rdma_seconds(guest, pair, 4096)
    clear(guest, *(sf.representor for sf in pair))


def test_devx_on_one(guest, pair):
    """An object that a process makes by a command, and a query that is answered by a file."""
    guest.run("cat > /tmp/devx_events.py", stdin=DEVX.read_bytes()).check()
    found = json.loads(run(guest, f"python3 /tmp/devx_events.py {pair[0].rdma}"))
    assert found["eqn"] > 0
    assert found["answer"][1] == "0" * 16


def test_on_demand_paging_between_them(guest, pair):
    """Memory that is registered without its pages: the sub-function asks its driver for them."""
    cross(guest, pair)
    rdma_seconds(guest, pair, 1 << 20, "-o")
    clear(guest, *(sf.representor for sf in pair))


def rate(guest, sf, **what):
    """Set a rate of a sub-function's port by devlink."""
    said = " ".join(f"{name} {value}" for name, value in what.items())
    run(guest, f"devlink port function rate set {sf.port} {said}")


def stream(one, two):
    """Bits per second of TCP from one to the other."""
    two.run("iperf3 -s -D -1")
    said = json.loads(one.run(f"iperf3 -c {two.address} -t 4 -J"))
    return said["end"]["sum_received"]["bits_per_second"]


def test_rates_of_ports_and_of_groups(guest, pair):
    """``devlink port function rate``: what a sub-function sends keeps to it."""
    one, two = pair
    cross(guest, pair)
    rate(guest, one, tx_max="20mbit")
    assert 8e6 < stream(one, two) < 22e6
    rate(guest, one, tx_max="0")
    run(guest, f"devlink port function rate add {DEV}/g1 tx_max 30mbit")
    for sf in pair:
        rate(guest, sf, parent="g1")
    assert 12e6 < stream(one, two) < 33e6
    assert "tx_max 30Mbit" in run(guest, f"devlink port function rate show {DEV}/g1")
    for sf in pair:
        run(guest, f"devlink port function rate set {sf.port} noparent")
    run(guest, f"devlink port function rate del {DEV}/g1")
    clear(guest, one.representor, two.representor)


def test_rates_hold_for_rdma(guest, pair):
    cross(guest, pair)
    octets = 1 << 16
    at_most = 20 * octets * 8 / 2e6
    free = rdma_seconds(guest, pair, octets)
    rate(guest, pair[0], tx_max="2mbit")
    took = rdma_seconds(guest, pair, octets)
    # Frames leave 4 ms apart, each by a timer, which on a busy host may be late by more than that.
    assert at_most <= took < 6 * at_most + free
    rate(guest, pair[0], tx_max="0")
    assert rdma_seconds(guest, pair, octets) < at_most
    clear(guest, *(sf.representor for sf in pair))


def test_64_of_them(guest):
    made = [add(guest, number)[0] for number in range(100, 164)]
    devices = [activate(guest, port) for port in made]
    assert len(set(devices)) == 64
    for device in devices[:4]:
        assert use(guest, device)
    run(guest, "devlink port show >/dev/null")
    for port in made:
        remove(guest, port)


def test_the_driver_goes_with_them(guest):
    port, _ = add(guest, 3)
    use(guest, activate(guest, port))
    run(guest, f"devlink dev reload {DEV}")
    run(guest, "until ip link show eth0 | grep -q eth0; do sleep 0.2; done")
    assert not ports(guest)
    set_mode(guest, "switchdev")
    port, _ = add(guest, 3)
    activate(guest, port)
