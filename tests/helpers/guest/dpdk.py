"""A guest for DPDK: two functions for its programs, and two for the interfaces beside them."""

from __future__ import annotations

import re

from emu.guests import GuestOptions
from helpers.guest.guests import FEW_KEYS, SECONDS, two_ends

_UP = """
set -e
mkdir -p /dev/hugepages
mount -t hugetlbfs none /dev/hugepages
"""
_TESTPMD = """
set -e
rm -f /tmp/in
mkfifo /tmp/in
stdbuf -oL dpdk-testpmd -l 0,1 --in-memory -a FIRSTARGS -a SECONDARGS -- MODE \
    < /tmp/in > /tmp/out 2>&1 &
pmd=$!
exec 3> /tmp/in
for _ in $(seq 300); do
    grep -q "Press enter to exit" /tmp/out && break
    sleep 0.2
done
TRAFFIC
echo >&3
wait $pmd || echo "testpmd: status $?"
cat /tmp/out
"""
PING = """
ip netns exec end2 timeout 60 sh -c 'until ping -q -c 1 -W 1 10.0.0.3; do :; done'
ip netns exec end2 ping -q -c 50 -i 0.02 -s 1000 -W 5 10.0.0.3
"""


def dpdk_guest(lab, suite, devices, more="", **options):
    """Its eth2 and eth3 are in namespaces (``two_ends``); ``more`` is carried out after that."""
    guest = lab.get(
        GuestOptions(
            suite=suite,
            devices=devices,
            packages=("dpdk-dev", "librte-net-mlx5-25"),
            hugepages=256,
            memory_mib=2048,
            kernel_arguments=FEW_KEYS,
            **options,
        )
    )
    guest.run(_UP + two_ends() + more, timeout=SECONDS).check()
    return guest


def pmd_script(mode, traffic, functions=("01:00.0", "02:00.0"), args=""):
    """A script that runs testpmd on two functions while there is traffic; ``args`` are theirs."""
    first, second = functions
    script = _TESTPMD.replace("FIRST", first).replace("SECOND", second).replace("ARGS", args)
    return script.replace("MODE", mode).replace("TRAFFIC", traffic)


def forwarded(said):
    """Packets received and sent by port, by testpmd's own statistics at the end."""
    found = re.findall(
        r"Forward statistics for port (\d).*?RX-packets: (\d+).*?TX-packets: (\d+)", said, re.S
    )
    return {int(port): (int(received), int(sent)) for port, received, sent in found}
