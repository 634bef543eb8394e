"""What a guest's kernel complains of, and what of that is not about the emulated functions."""

from __future__ import annotations

import re
import shlex

WARNING = 4
LINE = re.compile(r"<(?P<level>\d+)>\[ *\d+\.\d+\] (?P<text>.*)")
TRACE = re.compile(
    r"Call [Tt]race|cut here|WARNING: |BUG: |Oops|general protection|refcount_t"
    r"|blocked for more than|rcu.*stall|use-after-free|lockup|FW pages counter"
)
OURS = re.compile(
    r"mlx5|infiniband|ib_|rdma|uverbs|umad|pci|AER|MSI|DMA|irq \d|nobody cared|devlink",
    re.IGNORECASE,
)
NOT_OURS = {
    "ACPI: IRQ 4 override": "QEMU's tables describe the serial port so",
    "mtrr: your CPUs": "the firmware sets these registers on the first processor only",
    "ib0: ipoib_mcast_join_finish:dev_queue_xmit failed to re-queue packet, ret:2": (
        "the interface was taken down before what waited for the group was sent (NET_XMIT_CN)"
    ),
}
"""Complaints that our expression would catch, with the reason why they are nobody's here."""


PROVOKED = re.compile(r"^\S+/\d+: QP \d+ error: .*\(0x\w+ 0x\w+ 0x\w+\)$")
"""mlx5_ib tells why a queue pair has failed. The server's log has it as well, as a warning."""

RECOVERY = re.compile(
    r"Fatal error 3 detected|handling bad device here|starting teardown|error_sw_reset|reset done$"
    r"|resetting$|starting health recovery flow|pci_slot_reset|wait vital counter"
)
"""The driver's warnings of a recovery that succeeds (core/health.c), and the PCI core's."""


class KernelLog:
    """The kernel's log of a guest from now on; ``whole`` from the boot on."""

    def __init__(self, guest, *, whole=False):
        self._guest = guest
        self._seen = 0 if whole else len(self._raw())

    def _raw(self):
        return self._guest.run(["dmesg", "--raw"], timeout=60).check().stdout.splitlines()

    def lines(self):
        """Level and text of each line; the continuation of a text of several lines has none."""
        found = (LINE.match(line) for line in self._raw()[self._seen :])
        return [(int(line["level"]) & 7, line["text"]) for line in found if line]

    def complaints(self):
        """Traces of any kind, and what the driver, the RDMA stack or PCI warn of."""
        return [
            text
            for level, text in self.lines()
            if (TRACE.search(text) or (level <= WARNING and OURS.search(text)))
            and not PROVOKED.search(text)
            and not any(text.startswith(known) for known in NOT_OURS)
        ]

    def wait_for(self, text, seconds):
        """Until a line has ``text``; CommandTimeoutError after so many seconds."""
        command = f"until dmesg --raw | tail -n +{self._seen + 1} | grep -qF {shlex.quote(text)}"
        self._guest.run(f"{command}; do sleep 0.2; done", timeout=seconds).check()


def server_complaints(guest):
    """What the server of a guest's functions warned of."""
    log = (guest.logs / "server.log").read_text()
    return [line for line in log.splitlines() if " WARNING " in line or " ERROR " in line]
