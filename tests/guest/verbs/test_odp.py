"""On-demand paging under unmodified drivers: both schemes, the usual programs, and a stress."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.guest.kernel_log import KernelLog, server_complaints
from helpers.guest.traffic_tools import check, talk

from emu.guests import GuestOptions
from emu.guests.conformance.suite import BROKEN, HUGE_PAGES, SuiteOutcome, run_module
from emu.guests.image import image

pytestmark = pytest.mark.guest

EXAMPLES = Path(__file__).parents[3] / "examples" / "paging"
TRANSPORT, MEMORY = "connectx6-vf,odp=1,odp_all=1", "connectx6-vf,odp=2,odp_all=1"
OFFERED = re.compile(
    r"rc_odp_caps:\s+SUPPORT_SEND\s+SUPPORT_RECV\s+SUPPORT_WRITE\s+SUPPORT_READ\s+SUPPORT_ATOMIC\s+"
    r"SUPPORT_SRQ\s+uc_odp_caps:\s+NO SUPPORT\s+ud_odp_caps:\s+SUPPORT_SEND\s+"
    r"xrc_odp_caps:\s+SUPPORT_SEND\s+SUPPORT_WRITE\s+SUPPORT_READ\s+SUPPORT_ATOMIC\s+SUPPORT_SRQ\s"
)
"""What ``ibv_devinfo -v`` shows of a ConnectX-6."""
SECONDS = 120.0
LATE_DOORBELL = "ignored: no such queue"
"""A process whose queue pairs the driver has destroyed may ring once more."""
LEAST = 17
"""Tests of rdma-core's test_odp that have to pass; others want operations that mlx5_ib has not."""

NO_IMPLICIT = "ODP implicit is not supported"

ITERATIONS = 100
COMMANDS = (
    "ibv_rc_pingpong -c -o", "ibv_rc_pingpong -c -o -P", "ibv_rc_pingpong -c -O",
    "ib_send_bw --odp -F", "ib_write_bw --odp -F", "ib_read_bw --odp -F", "ib_atomic_bw --odp -F",
)  # fmt: skip
NO_ATOMICS = "ODP does not support ATOMICS for now"
"""Debian 12's perftest; its kernel and the function do."""

STRESS = "python3 /mnt/share/stress.py --seconds"
SWAP = "fallocate -l 512M /var/swap && chmod 600 /var/swap && mkswap /var/swap && swapon /var/swap"


both_schemes = pytest.fixture(params=[TRANSPORT, MEMORY], ids=["transport", "memory"])


@both_schemes
def guest(lab, suite, request):
    devices = (request.param,)
    guest = lab.get(
        GuestOptions(suite=suite, devices=devices, hugepages=HUGE_PAGES, share=EXAMPLES)
    )
    log = KernelLog(guest)
    yield guest
    assert log.complaints() == []
    assert [line for line in server_complaints(guest) if LATE_DOORBELL not in line] == []


@pytest.mark.parametrize("device", ["connectx6-vf,odp=1", "connectx6-vf,odp=2"])
def test_what_is_offered_by_default(lab, suite, device):
    guest = lab.get(GuestOptions(suite=suite, devices=(device,)))
    said = guest.run("ibv_devinfo -v").check().stdout
    assert OFFERED.search(said), said


@pytest.mark.slow
def test_rdma_core(guest):
    run = run_module(guest, "test_odp", SECONDS, lambda *_: None)
    assert [test for test in run.tests if test.outcome in BROKEN] == []
    assert run.count(SuiteOutcome.PASSED) >= LEAST


@pytest.mark.parametrize("command", COMMANDS)
def test_program(guest, command):
    told = talk(guest, guest, f"{command} -n {ITERATIONS}", "127.0.0.1")
    if NO_ATOMICS in told:
        pytest.skip("this perftest has no atomics with on-demand paging")
    check(told)
    assert "iters in" in told.client or "#bytes" in told.client, told


def test_counters(guest):
    """Pages by the driver's count, requests and packets by the device's: none for a second try."""
    told = json.loads(guest.run("python3 /mnt/share/counters.py", timeout=SECONDS).check().stdout)
    names = "page_faults", "page_invalidations", "page_prefetch"
    source, target = told["regions"]
    assert [source[name] for name in names] == [16, 0, 0]
    assert [target[name] for name in names] == [20, 4, 8]
    # Linux 7.2 counts the events, too: one for each message that found pages absent.
    handled = [region.get("page_faults_handled") for region in told["regions"]]
    assert handled in ([1, 2], [None, None])
    port = told["port"]
    assert (port.pop("rx_read_requests"), port.pop("rx_write_requests")) == (1, 1)
    # In packets of 1024 bytes: a READ of 16 pages and its request, a WRITE of 4 pages and its ACK.
    packets = 64 + 1 + 16 + 1
    assert port.pop("port_xmit_packets") == port.pop("port_rcv_packets") == packets
    words = port.pop("port_xmit_data")
    assert words == port.pop("port_rcv_data")
    assert 20 * 4096 <= words * 4 < 20 * 4096 + packets * 48
    assert {name: value for name, value in port.items() if value} == {}, "errors and retries"


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_stress(guest, request):
    seconds = request.config.getoption("--paging-seconds")
    guest.run(f"test -e /var/swap || ({SWAP})", timeout=SECONDS).check()
    result = guest.run(f"{STRESS} {seconds}", timeout=seconds + 5 * SECONDS).check()
    assert "data right every time" in result.stdout


@pytest.mark.suite("trixie", "sid")
def test_unload_with_memory_registered(guest):
    """The driver takes a process's objects away under it; what waits for pages goes with them.

    Linux 6.1 destroys a region's key before it stops to listen for pages that go: one that goes in
    between makes its UMR fail, and the kernel warns (hw/mr.c: mlx5_ib_dereg_mr).
    """
    running = guest.popen(["sh", "-c", f"{STRESS} 60"])
    guest.run("until rdma resource show qp | grep -q python; do sleep 0.1; done", timeout=SECONDS)
    guest.run("modprobe -r mlx5_ib", timeout=SECONDS).check()
    running.kill()  # how long it looks for its adapter is its own affair
    guest.wait(running, SECONDS)
    guest.run("modprobe mlx5_ib", timeout=SECONDS).check()
    guest.run("until rdma link | grep -q ACTIVE; do sleep 0.1; done", timeout=SECONDS).check()


@both_schemes
def five_levels(lab, suite, request):
    """A guest whose page tables have five levels.

    QEMU starts an unpacked kernel with four; a packed one looks at its processor.
    """
    packed = image.ensure(suite).path / "vmlinuz"
    guest = lab.get(
        GuestOptions(
            suite=suite, devices=(request.param,), hugepages=HUGE_PAGES, share=EXAMPLES,
            qemu_arguments=("-kernel", str(packed)),
        )
    )  # fmt: skip
    flags = guest.run("grep -m1 ^flags /proc/cpuinfo", timeout=SECONDS).check().stdout.split()
    if "la57" not in flags:
        pytest.skip("this processor's page tables have four levels")
    log = KernelLog(guest)
    yield guest
    assert log.complaints() == []
    assert [line for line in server_complaints(guest) if LATE_DOORBELL not in line] == []


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_implicit_registration_with_five_levels(five_levels):
    """Its key has 2^26 entries; rdma-core's tests register the whole address space in some ways.

    Linux 7.2 makes entries of 2^34 bytes instead, if the adapter can have such, and otherwise has
    no implicit registration (hw/mlx5/odp.c: mlx5_ib_odp_init, mlx5_ib_internal_fill_odp_caps).
    """
    run = run_module(five_levels, "test_odp", 15 * SECONDS, lambda *_: None)
    assert [test for test in run.tests if test.outcome in BROKEN] == []
    if without := [test for test in run.tests if NO_IMPLICIT in test.detail]:
        assert run.count(SuiteOutcome.PASSED) >= LEAST - len(without)
        pytest.skip("this kernel wants umr_log_entity_size_5 for implicit registration")
    assert run.count(SuiteOutcome.PASSED) >= LEAST
    told = talk(five_levels, five_levels, f"ibv_rc_pingpong -c -O -n {ITERATIONS}", "127.0.0.1")
    check(told)
