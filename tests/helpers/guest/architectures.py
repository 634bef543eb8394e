"""The architectures of guest tests: their suites, pages and byte order."""

from __future__ import annotations

import re

import pytest

from emu.guests.architecture import ARCHITECTURES

KINDS = {
    # name: suite whose packages the archive keeps complete, bytes of a page, byte order
    "s390x": ("sid", 4096, "big"),
    "arm64-16k": ("trixie", 16384, "little"),
    "arm64": ("trixie", 4096, "little"),
    "riscv64": ("trixie", 4096, "little"),
    "ppc64el": ("sid", 4096, "little"),
    "ppc64el-64k": ("sid", 65536, "little"),
    "armhf": ("trixie", 4096, "little"),
}
KNOWN = re.compile(
    "pci-host-generic .*exceeds max for 32 bits"  # arm64: QEMU's window for PCI has 512 GiB
    "|pci .*: No hypervisor support for SR-IOV on this device"  # pseries
)
"""Lines about QEMU's machines."""
BOOT_SECONDS = 400
"""Time limit of a boot."""


def processors(name):
    """Return the processors of a guest: one with 32 bits, where doorbells of two tear.

    examples/findings/other-processors.md has the reason.
    """
    return 1 if name == "armhf" else 2


def parameters(quick, *, without_verbs=False):
    """Return pytest's parameters: each architecture's name, marked slow unless in ``quick``.

    Those whose libibverbs has no mlx5 are among them only on demand.
    """
    return [
        pytest.param(name, marks=() if name in quick else pytest.mark.slow)
        for name in KINDS
        if without_verbs or ARCHITECTURES[name].has_verbs
    ]


def needs_verbs(name):
    """Skip a test on an architecture whose libibverbs has no mlx5."""
    if not ARCHITECTURES[name].has_verbs:
        pytest.skip(f"libibverbs of {name} has no mlx5")
