"""Modules outside the kernel's tree, built on the host for the guest's kernel."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from emu.cli.main import main
from emu.guests.options.devices import DEFAULT_DEVICE

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(1800)]

EXAMPLE = Path(__file__).parents[3] / "examples" / "module"


def test_it_is_built_and_loaded(boot, tmp_path, suite, request):
    here = shutil.copytree(EXAMPLE, tmp_path / "module")
    kernel = request.config.getoption("kernel")
    words = ["--suite", suite, *(("--kernel", kernel) if kernel else ())]
    done = CliRunner().invoke(main, ["kernel", "module", *words, str(here)])
    assert done.exit_code == 0, done.output
    guest = boot(devices=(DEFAULT_DEVICE,), share=here)
    guest.run("insmod /mnt/share/peek.ko; rmmod peek").check()
    log = guest.dmesg()
    assert "peek: mlx5_0 has 1 ports" in log
    assert "peek: mlx5_0 is going" in log
