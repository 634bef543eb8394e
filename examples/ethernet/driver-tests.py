#!/usr/bin/env python3
"""The kernel's own tests of network drivers, on the adapter's Ethernet interface.

They come from a kernel source tree of Linux 6.12 or later, as the package linux-source-6.12 has it
(tools/testing/selftests/drivers/net, its directory hw, and what those use). A guest runs them on
one function; the other one, in a network namespace, is the endpoint that they want to talk to:

    mlx5emu run --stdin --share LINUX --memory 3072 --device connectx6dx --device connectx6dx-vf \
        --package python3-yaml --package socat --package jq --package netsniff-ng \
        --package gcc --package libc6-dev -- python3 - < examples/ethernet/driver-tests.py

Arguments are names of tests, as ``hw/csum.py``; none means all. Those of Linux 7.2 take a pattern
for their cases, as ``gro.py:test.hw_ipv4_*``. It prints what the tests say and then, for each, how
many of its cases have passed, failed or been skipped, and why. The status is 1 when a case has
failed. The guest builds the programs that the tests use; those in BPF want ``--package clang
--package libbpf-dev --package bpftool`` besides, those that speak netlink ``--package make
--package python3-jsonschema``, the one for io_uring ``--package liburing-dev``; netpoll_basic.py
wants ``--package bpftrace``. HW-GRO, and what needs it, is ConnectX-7's (``connectx7,link=eth``).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

SHARE = Path("/mnt/share")
WORK = Path("/tmp/kernel-tests")
SELFTESTS = "tools/testing/selftests"
TREES = (
    "Documentation/netlink", "include/uapi", "tools/net/ynl", f"{SELFTESTS}/drivers/net",
    f"{SELFTESTS}/net", f"{SELFTESTS}/kselftest",
)  # fmt: skip
HEADERS = "kselftest.h"
HELPERS = (
    "net/lib/csum", "net/lib/gro", "net/lib/xdp_helper", "drivers/net/napi_id_helper",
    "drivers/net/so_txtime",
)  # fmt: skip
"""Programs that need nothing but a C library."""
URING = "drivers/net/hw/iou-zcrx"
YNL_HELPERS = ("drivers/net/psp_responder", "drivers/net/hw/ncdevmem", "drivers/net/hw/toeplitz")
YNL = "tools/net/ynl"
YNL_FAMILIES = "ethtool netdev psp"
"""Of netlink: what these programs speak, by a library that is made from the specifications."""

BPF = ("net/lib", "drivers/net/hw")
"""Where programs in BPF are."""

NO_TESTS = {"hw/ethtool_lib.sh", "hw/devmem_lib.py"}
"""Parts of others."""
NEEDS = {
    "gro.py": "net/lib/gro",
    "napi_id.py": "drivers/net/napi_id_helper",
    "psp.py": "drivers/net/psp_responder",
    "so_txtime.py": "drivers/net/so_txtime",
    "xdp.py": "net/lib/xdp_native.bpf.o",
    "hw/csum.py": "net/lib/csum",
    "hw/devmem.py": "drivers/net/hw/ncdevmem",
    "hw/gro_hw.py": "net/lib/gro",
    "hw/iou-zcrx.py": "drivers/net/hw/iou-zcrx",
    "hw/nk_devmem.py": "drivers/net/hw/ncdevmem",
    "hw/nk_netns.py": "drivers/net/hw/nk_forward.bpf.o",
    "hw/nk_qlease.py": "drivers/net/hw/nk_forward.bpf.o",
    "hw/toeplitz.py": "drivers/net/hw/toeplitz",
    "hw/userns_devmem.py": "drivers/net/hw/ncdevmem",
    "hw/xdp_metadata.py": "net/lib/xdp_metadata.bpf.o",
}
"""Tests that fail without a program, where they should be skipped."""

SPLIT = {
    "hw/devmem.py", "hw/iou-zcrx.py", "hw/nk_devmem.py", "hw/nk_qlease.py", "hw/userns_devmem.py",
}  # fmt: skip
"""Tests that split headers from data, which mlx5e does with HW-GRO only (core/en_ethtool.c:
mlx5e_ethtool_set_tcp_data_split)."""

PEER = "peer"
NETIF, REMOTE = "eth0", "eth1"
ADDRESSES = {
    "LOCAL_V4": "203.0.113.1", "REMOTE_V4": "203.0.113.2",
    "LOCAL_V6": "2001:db8:cafe::1", "REMOTE_V6": "2001:db8:cafe::2",
    "LOCAL_PREFIX_V6": "2001:db8:2::/64",
}  # fmt: skip
UP = f"""
set -e
for _ in $(seq 600); do  # it comes back from a namespace some time after that has gone
    [ -e /sys/class/net/{NETIF} ] && [ -e /sys/class/net/{REMOTE} ] && break
    sleep 0.1
done
[ -e /sys/class/net/{REMOTE} ] || {{
    echo "no {REMOTE}: the tests need two functions with an Ethernet port (link=eth)" >&2
    exit 1
}}
ip netns add {PEER}
ip link set {REMOTE} netns {PEER}
ip -n {PEER} link set lo up
ip address add 203.0.113.1/24 dev {NETIF}
ip address add 2001:db8:cafe::1/64 dev {NETIF} nodad
ip -n {PEER} address add 203.0.113.2/24 dev {REMOTE}
ip -n {PEER} address add 2001:db8:cafe::2/64 dev {REMOTE} nodad
ip link set {NETIF} up
ip -n {PEER} link set {REMOTE} up
ip -n {PEER} route add 2001:db8:2::/64 via 2001:db8:cafe::1
ethtool -K {NETIF} ntuple on
for _ in $(seq 100); do ping -c 1 -W 1 203.0.113.2 > /dev/null && exit 0; done
exit 1
"""
SPLIT_UP = f"ethtool -K {NETIF} rx-gro-hw on"
DOWN = f"""
ip netns del {PEER}
ip address flush dev {NETIF}
ethtool -K {NETIF} ntuple off rx-gro-hw off
"""

KERNEL = """
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
modprobe -a sch_fq netconsole
"""
"""What tests expect of the kernel: where programs in BPF are pinned, and modules."""
FAIR = {"gro.py"}
"""Tests whose packets say when they are to leave (SO_TXTIME): together then, by fq. It drops what
is behind 100 of a flow, so others have the kernel's default."""
QUEUEING = "sysctl -qw net.core.default_qdisc="

EMULATED = "QEMU TCG"
"""In /proc/cpuinfo: times say nothing there, and tests are told so (KSFT_MACHINE_SLOW)."""

RESULT = re.compile(r"(not )?ok \d+ (?:\S+\.)?(\S+)(?: # (SKIP|XFAIL)\s*(.*))?$")
"""A line of KTAP."""
OLD_RESULT = re.compile(r"(?:TEST|SKIP|INFO): (.*?)\s*\[\s*(OK|FAIL|SKIP|XFAIL|XPASS)\s*\]")
"""A line of a shell test of before there was KTAP."""
SKIPPED = 4
"""Status of a test that has been skipped as a whole (kselftest's)."""


class Case(NamedTuple):
    """What became of one case of a test."""

    name: str
    outcome: str
    reason: str


def say(text: str) -> None:
    """Print at once, as the guest may not live to do it later."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def prepare() -> None:
    """Copy what the tests need to where they may write, and build their programs."""
    for tree in TREES:
        if (SHARE / tree).is_dir():
            shutil.copytree(SHARE / tree, WORK / tree, dirs_exist_ok=True)
    top = WORK / SELFTESTS
    shutil.copy(SHARE / SELFTESTS / HEADERS, top)
    if shutil.which("cc"):
        for helper in HELPERS:
            build(top / f"{helper}.c", "", ["cc", "-w", "-O1", f"-I{top}"])
        build(top / f"{URING}.c", "", ["cc", "-w", "-O1", f"-I{top}"], "-luring")
    if shutil.which("make"):
        build_netlink(top)
    if shutil.which("clang"):
        machine = f"-I/usr/include/{os.uname().machine}-linux-gnu"
        for place in BPF:
            for source in (top / place).glob("*.bpf.c"):
                build(source, ".o", ["clang", "-w", "-O2", "-g", "-target", "bpf", machine, "-c"])


def build_netlink(top: Path) -> None:
    """Make the library that speaks netlink, and the programs that use it."""
    ynl = WORK / YNL
    (WORK / "MAINTAINERS").touch()  # what makes it looks above itself for this, without an end
    for place in ("lib", "generated"):
        make = ["make", "-sC", str(ynl / place), f"GENS={YNL_FAMILIES}", "RSTS="]
        subprocess.run(make, check=False)
    libraries = (ynl / "generated/protos.a", ynl / "lib/ynl.a")
    for helper in YNL_HELPERS:
        includes = [f"-I{place}" for place in (top, ynl / "lib", ynl / "generated")]
        build(top / f"{helper}.c", "", ["cc", "-w", "-O1", *includes], *libraries)


def build(source: Path, suffix: str, compiler: list[str], *libraries: str | Path) -> None:
    """Compile a program if the tree has it; tests that want one which cannot be are skipped."""
    if source.exists():
        program = source.with_suffix(suffix)
        subprocess.run([*compiler, "-o", program, source, *libraries], check=False)


def tests() -> list[str]:
    """Names of the tests in the tree, below drivers/net."""
    top = WORK / SELFTESTS / "drivers/net"
    found = [path for place in (top, top / "hw") for path in place.iterdir()]
    names = {str(path.relative_to(top)) for path in found if os.access(path, os.X_OK)}
    return sorted(name for name in names - NO_TESTS if name.endswith((".py", ".sh")))


def command(test: str, path: Path, cases: str) -> list[str]:
    """How to start a test; those in shell of before KTAP take two interfaces as arguments."""
    if test.endswith(".py"):
        return ["python3", str(path), *(("-t", cases) if cases else ())]
    is_conformant = "DRIVER_TEST_CONFORMANT" in path.read_text()
    return ["bash", str(path), *(() if is_conformant else (NETIF, REMOTE))]


def run(chosen: str, timeout: float) -> tuple[list[Case], str]:
    """Run one test with its two endpoints; its cases and all that it has said."""
    test, _, wanted = chosen.partition(":")
    path = WORK / SELFTESTS / "drivers/net" / test
    need = NEEDS.get(test)
    if need and not (WORK / SELFTESTS / need).exists():
        return [Case("", "skipped", f"{need} has not been built")], ""
    words = command(test, path, wanted)
    is_local = words[-1] == REMOTE
    if not is_local:
        queueing = "fq" if test in FAIR else "pfifo_fast"
        subprocess.run(QUEUEING + queueing, shell=True, check=False)
        subprocess.run(UP, shell=True, check=True)
        if test in SPLIT:
            subprocess.run(SPLIT_UP, shell=True, check=False)
    environment = os.environ | ADDRESSES | {
        "NETIF": NETIF, "REMOTE_TYPE": "netns", "REMOTE_ARGS": PEER, "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    if EMULATED in Path("/proc/cpuinfo").read_text():
        environment["KSFT_MACHINE_SLOW"] = "yes"
    try:
        said, status = _finish(words, path.parent, environment, timeout)
    finally:
        if not is_local:
            subprocess.run(DOWN, shell=True, check=False, stderr=subprocess.DEVNULL)
            _wait_for(REMOTE)
    return cases(said, status), said


def _finish(
    words: list[str], place: Path, environment: dict[str, str], timeout: float
) -> tuple[str, int | None]:
    """What a test says, and its status; None when it has taken too long and was killed."""
    log = WORK / "log"
    with log.open("w") as out:
        job = subprocess.Popen(
            words, cwd=place, env=environment, stdout=out, stderr=out, start_new_session=True
        )
        status: int | None = None
        try:
            status = job.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    return log.read_text(errors="replace"), status


def _wait_for(name: str) -> None:
    """An interface comes back to us when its namespace has gone, which takes the kernel a while."""
    wait = f"for _ in $(seq 100); do test -e /sys/class/net/{name} && exit; sleep 0.1; done"
    subprocess.run(wait, shell=True, check=False)


def cases(said: str, status: int | None) -> list[Case]:
    """The cases that a test's output tells of."""
    found = []
    for line in said.splitlines():
        if match := RESULT.match(line):
            failed, name, directive, reason = match.groups()
            outcome = {"SKIP": "skipped", "XFAIL": "expected"}.get(directive or "")
            found.append(Case(name, outcome or ("failed" if failed else "passed"), reason or ""))
        elif match := OLD_RESULT.match(line):
            outcome = {"OK": "passed", "FAIL": "failed", "XPASS": "failed"}.get(match[2], "skipped")
            found.append(Case(match[1], outcome, ""))
    if status is None:
        found.append(Case("", "failed", "took too long"))
    elif not found:
        last = said.strip().splitlines()[-1:] or ["no result"]
        found.append(Case("", "skipped" if status == SKIPPED else "failed", last[0]))
    return found


def report(results: dict[str, list[Case]]) -> None:
    """A line for each test, and below it the cases that have not passed."""
    for test, found in results.items():
        counts = Counter(case.outcome for case in found)
        say(f"{test}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
        for case in found:
            if case.outcome != "passed":
                say(f"    {case.outcome}: {case.name} {case.reason}".rstrip())


def main() -> int:
    parser = argparse.ArgumentParser(description="The kernel's tests of network drivers.")
    parser.add_argument("tests", nargs="*", metavar="TEST", help="by default all")
    parser.add_argument("--timeout", type=float, default=360, metavar="S", help="for each test")
    arguments = parser.parse_args()
    prepare()
    subprocess.run(KERNEL, shell=True, check=False)
    results = {}
    for test in arguments.tests or tests():
        say(f"== {test}")
        results[test], said = run(test, arguments.timeout)
        say(said)
    report(results)
    return 1 if any(case.outcome == "failed" for one in results.values() for case in one) else 0


if __name__ == "__main__":
    sys.exit(main())
