"""examples/module: a module outside the kernel's tree, built for the guest's kernel."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from emu.guests.options.guest import DEFAULT_DEVICE

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(1800)]

EXAMPLE = Path(__file__).parents[3] / "examples" / "module"
HEADERS = ("linux-headers-amd64", "make")
SECONDS = 900
"""For an emulated processor that compiles, on a busy host."""


def test_it_is_built_in_the_guest(boot, tmp_path):
    here = shutil.copytree(EXAMPLE, tmp_path / "module")
    guest = boot(devices=(DEFAULT_DEVICE,), share=here, share_writable=True, packages=HEADERS)
    guest.run(
        "cd /mnt/share; make -C /lib/modules/$(uname -r)/build M=$PWD modules", timeout=SECONDS
    ).check()
    assert (here / "peek.ko").exists()
    guest.run("insmod /mnt/share/peek.ko; rmmod peek", timeout=SECONDS).check()
    log = guest.dmesg()
    assert "peek: mlx5_0 has 1 ports" in log
    assert "peek: mlx5_0 is going" in log
