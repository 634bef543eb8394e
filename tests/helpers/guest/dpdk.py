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


def dpdk_guest(lab, suite, devices, more=""):
    """Its eth2 and eth3 are in namespaces (``two_ends``); ``more`` is carried out after that."""
    guest = lab.get(
        GuestOptions(
            suite=suite,
            devices=devices,
            packages=("dpdk-dev", "librte-net-mlx5-25"),
            hugepages=256,
            memory_mib=2048,
            kernel_arguments=FEW_KEYS,
        )
    )
    guest.run(_UP + two_ends() + more, timeout=SECONDS).check()
    return guest


def forwarded(said):
    """Packets received and sent by port, by testpmd's own statistics at the end."""
    found = re.findall(
        r"Forward statistics for port (\d).*?RX-packets: (\d+).*?TX-packets: (\d+)", said, re.S
    )
    return {int(port): (int(received), int(sent)) for port, received, sent in found}
