"""A virtual function for a guest within the guest, by vfio-pci and a QEMU of the outer one."""

from __future__ import annotations

from pathlib import Path

import pytest

from emu.guests import Guest, GuestOptions
from emu.guests.image import image

pytestmark = [
    pytest.mark.guest, pytest.mark.slow, pytest.mark.suite("trixie"), pytest.mark.timeout(1200),
]  # fmt: skip

EXAMPLES = Path(__file__).parents[3] / "examples" / "sriov"


def test_the_inner_guest_probes_the_function_and_reaches_the_outer_one(lab, suite):
    options = GuestOptions(
        suite=suite,
        devices=("connectx6dx,vfs=1",),
        iommu=True,
        packages=("qemu-system-x86",),
        share=EXAMPLES,
    )
    with Guest(options) as guest:
        guest.run("cat > /tmp/vmlinuz", stdin=(image.ensure(suite).path / "vmlinuz").read_bytes())
        said = guest.run("bash /mnt/share/nested.sh /tmp/vmlinuz", timeout=900).check().stdout
    assert "0000:00:02.0: firmware version: 22.43.2000" in said
    assert "link/ether 02:00:00:00:00:77" in said
    assert "the inner guest reaches the outer one" in said
