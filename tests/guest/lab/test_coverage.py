"""Coverage of the stock driver's functions, in each suite's kernel."""

from __future__ import annotations

import subprocess

import pytest

from emu.guests.archive.names import DEFAULT_SUITE
from emu.guests.errors import GuestError
from emu.guests.machine import qemu
from emu.guests.options import DEFAULT_DEVICE
from emu.instruments.coverage import blocks
from emu.instruments.coverage.session import CoverageSession

pytestmark = pytest.mark.guest


@pytest.mark.suite("bookworm")
def test_a_kernel_without_the_probes_says_so(boot):
    """Debian's Linux 6.1 is built without CONFIG_FPROBE."""
    counting = CoverageSession(boot(probe=False, devices=(DEFAULT_DEVICE,)), ["mlx5_core"])
    with pytest.raises(GuestError, match="CONFIG_FPROBE"):
        counting.start()


@pytest.mark.suite("trixie", "sid")
def test_functions_that_ran_are_counted(boot):
    """From the modules' loading on: initialization, probe, and what a command makes them do."""
    guest = boot(probe=False, devices=(DEFAULT_DEVICE,) * 2)
    counting = CoverageSession(guest, ["mlx5_core", "mlx5_ib"])
    counting.start()
    names = guest.run("cd /sys/class/infiniband; for i in *; do readlink -f $i/device; done").stdout
    assert names.split() == sorted(names.split())  # as without counting: a script relies on it
    guest.run(
        "ibv_devinfo && python3 -c 'import os; os.listdir(\"/sys/class/infiniband\")'"
    ).check()
    listens = "until ss -Hltn sport = :18515 | grep -q LISTEN; do sleep 0.1; done"
    guest.run(f"ibv_rc_pingpong >/dev/null & {listens}; ibv_rc_pingpong localhost").check()
    found = counting.finish()

    (kernel,) = found.kernels.values()
    assert list(found.kernels) == [guest.kernel_release]
    calls = {
        name: {one.name: one.calls for one in module.functions}
        for name, module in kernel.modules.items()
    }
    core, ib = calls["mlx5_core"], calls["mlx5_ib"]
    assert kernel.modules["mlx5_ib"].directory == "drivers/infiniband/hw/mlx5"
    assert ib["mlx5_ib_init"] == 1
    assert core["mlx5_load"] == 2
    assert ib["mlx5_ib_create_qp"] >= 2
    assert ib["mlx5_ib_dealloc_pd"] >= 1
    assert core["mlx5_health_try_recover"] == ib["mlx5_ib_rereg_user_mr"] == 0
    assert kernel.modules["mlx5_core"].ran > 150
    assert kernel.modules["mlx5_ib"].ran > 100


@pytest.mark.slow
@pytest.mark.suite(DEFAULT_SUITE)
def test_blocks_that_ran_are_counted(boot, tmp_path):
    """A function's first block has run if, and only if, the function was called."""
    shared = blocks.BlockMap()
    try:
        guest = boot(
            probe=False,
            devices=(DEFAULT_DEVICE,),
            accelerator="tcg",
            qemu_arguments=shared.arguments(),
        )
        counting = CoverageSession(guest, ["mlx5_core", "mlx5_ib"])
        counting.start()
        guest.run("ibv_devinfo").check()
        (kernel,) = counting.finish().kernels.values()
        found = blocks.measure(shared, counting.files(tmp_path), counting.bases)
        assert shared.lost == 0
    finally:
        shared.close()
    for name, module in kernel.modules.items():
        ran = set(found[name].ran)
        placed = [one for one in module.functions if one.offset is not None]
        agreed = sum((one.calls > 0) == (one.offset in ran) for one in placed)
        assert agreed > 0.97 * len(placed)
        assert 0.02 * found[name].total < len(ran) < 0.5 * found[name].total


def test_the_plugin_in_a_machine_without_a_guest(lab, tmp_path):
    """The firmware's code runs, and its blocks are seen; another file is refused at once."""
    program = qemu.ensure()
    bare = [*program.command, "-nodefaults", "-no-user-config", "-display", "none"]
    shared = blocks.BlockMap((0, 1 << 40), capacity=4096)
    try:
        process = subprocess.Popen([*bare, "-accel", "tcg", *shared.arguments()])
        try:
            while len(shared.executed()) < 100:
                assert process.poll() is None
        finally:
            process.kill()
            process.wait()
    finally:
        shared.close()
    (tmp_path / "other").write_bytes(bytes(4096))
    words = ["-plugin", f"{blocks.plugin()},map={tmp_path}/other"]
    assert subprocess.run([*bare, *words], check=False, timeout=60).returncode != 0
