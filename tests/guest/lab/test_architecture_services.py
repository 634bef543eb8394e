"""Long frames, storage, RoCE and fault plans on guests of other architectures.

``-k s390x`` chooses one architecture, ``-k "arm64 and not 16k"`` the kernel with pages of 4 KiB.
"""

from __future__ import annotations

import re
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
from helpers.guest.fault_plans import PLANS, Bench, carry_out, problems
from helpers.guest.guests import (
    IN_PEER,
    SECONDS,
    addresses_ready,
    no_complaints_since_boot,
    run,
    two_namespaces,
)

from emu.guests import Guest, GuestOptions
from emu.guests.architecture import ARCHITECTURES
from emu.instruments.fuzz.traffic import is_ethernet
from emu.server.service.plan_files import read_plan

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(900)]

STORAGE = Path(__file__).parents[3] / "examples" / "storage"
STREAM = Path(__file__).parents[1] / "inside" / "checked_stream.py"
HERE, THERE = "10.0.0.1", "10.0.0.2"
UP = f"""
{two_namespaces("eth0", "eth1", HERE, THERE)}
ip link set eth0 mtu 9000
ip -n peer link set eth1 mtu 9000
{addresses_ready("eth0", "eth1")}
"""
MIB = 1 << 20
SAME_VERDICT = (
    "command-status-bad-parameter",
    "completion-remote-access",
    "event-temperature-warning",
    "health-syndrome-temperature",
    "packets-corrupted",
    "pages-requested",
    "ethernet-frames-corrupted",
    "ethernet-no-receive-request",
    "ethernet-queue-refused",
    "ethernet-send-request-fails",
)
"""Plans whose expectation, that of amd64, the driver of each architecture meets."""


@pytest.fixture(scope="module", params=parameters((), without_verbs=True))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def guest(lab, name):
    options = GuestOptions(
        arch=name,
        suite=KINDS[name][0],
        cpus=processors(name),
        devices=("connectx6dx", "connectx6dx"),
        share=STORAGE,
        boot_timeout=BOOT_SECONDS,
    )
    with Guest(options) as guest:
        guest.run("cat > /tmp/checked_stream.py", stdin=STREAM.read_bytes()).check()
        yield guest
        no_complaints_since_boot(guest, known=KNOWN)


def test_nvme_over_rdma(guest):
    said = guest.run("sh /mnt/share/nvme-rdma.sh", timeout=400).check().stdout
    assert "16m in blocks of 256k written and verified" in said
    assert said.endswith("nvme-rdma: unloaded\n")


def test_nfs_over_rdma(guest):
    said = guest.run("sh /mnt/share/nfs-rdma.sh", timeout=400).check().stdout
    assert "are the same after mounting again" in said


def test_roce(guest, name):
    """By both versions of RoCE; the program compares the data."""
    needs_verbs(name)
    for gid in (1, 0):
        command = f"ibv_rc_pingpong -d mlx5_0 -g {gid} -c -n 100"
        run(guest, f"{command} > /dev/null & sleep 1; {command} 127.0.0.1 && wait $!")


@pytest.fixture(scope="module")
def long_frames(guest):
    """Both interfaces with an MTU of 9000, the second in a namespace of its own."""
    run(guest, f"ip address flush dev eth0\nset -e\n{UP}")
    yield
    run(guest, "ip netns del peer")


def counters(guest):
    """Return the driver's counts: of the sending interface, and of the receiving one."""
    said = (run(guest, "ethtool -S eth0"), run(guest, f"{IN_PEER}ethtool -S eth1"))
    return [{key: int(n) for key, n in re.findall(r"(\w+): (\d+)$", one, re.M)} for one in said]


@pytest.mark.usefixtures("long_frames")
@pytest.mark.parametrize("striding", ["on", "off"])
def test_large_sends_in_long_frames(guest, striding):
    """A stream arrives as sent; its frames were segmented, and their checksums were verified."""
    run(guest, f"{IN_PEER}ethtool --set-priv-flags eth1 rx_striding_rq {striding}")
    before = counters(guest)
    program = "python3 /tmp/checked_stream.py"
    server = guest.popen(f"exec {IN_PEER}timeout {SECONDS} {program} listen {THERE}")
    run(guest, f"until {IN_PEER}ss -Hltn sport = :5300 | grep -q LISTEN; do sleep 0.1; done")
    sent = run(guest, f"{program} send {THERE} {4 * MIB}")
    assert guest.wait(server, timeout=SECONDS) == 0, server.stderr.decode()
    assert sent.strip() == server.stdout.decode().split("listening\n")[1].strip()
    here, there = (
        {key: new[key] - old.get(key, 0) for key in new}
        for old, new in zip(before, counters(guest), strict=True)
    )
    assert here["tx_tso_packets"] > 0
    assert here["tx_csum_partial"] > 0
    assert there["rx_packets"] > 4 * MIB // 9000
    verified = there["rx_csum_unnecessary"] + there["rx_csum_complete"]
    assert verified > 10 * there["rx_csum_none"]  # neighbour discovery has none
    assert there["rx_wqe_err"] == there["rx_oversize_pkts_sw_drop"] == 0


@pytest.fixture(scope="module")
def benches(lab, name):
    """Guests of this architecture for plans, by model."""
    made = {}

    def get(model):
        if model not in made:
            functions = ARCHITECTURES[name].min_functions
            options = {"arch": name, "boot_timeout": BOOT_SECONDS, "cpus": processors(name)}
            made[model] = Bench(KINDS[name][0], model, functions=functions, **options)
        return made[model]

    yield get
    for bench in made.values():
        bench.close()


@pytest.mark.parametrize("plan_name", SAME_VERDICT)
def test_the_driver_reacts_as_on_amd64(benches, name, plan_name):
    """InfiniBand's traffic is that of a program of verbs."""
    path = PLANS / f"{plan_name}.toml"
    plan = read_plan(path)
    if not is_ethernet(plan.expect.model):
        needs_verbs(name)
    outcome = carry_out(plan, path.read_text(), benches(plan.expect.model))
    assert problems(plan, outcome) == [], "\n".join(outcome.log[-40:])
