"""Coverage of the stock driver's functions, in each suite's kernel."""

from __future__ import annotations

import pytest

from emu.coverage.session import Session
from emu.lab.options import DEFAULT_DEVICE

pytestmark = pytest.mark.guest


def test_functions_that_ran_are_counted(boot):
    """From the modules' loading on: initialization, probe, and what a command makes them do."""
    guest = boot(probe=False, devices=(DEFAULT_DEVICE,))
    counting = Session(guest, ["mlx5_core", "mlx5_ib"])
    counting.start()
    guest.run(
        "ibv_devinfo && python3 -c 'import os; os.listdir(\"/sys/class/infiniband\")'"
    ).check()
    guest.run("ibv_rc_pingpong >/dev/null & sleep 2; ibv_rc_pingpong localhost").check()
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
    assert core["mlx5_load"] == 1
    assert ib["mlx5_ib_create_qp"] >= 2
    assert ib["mlx5_ib_dealloc_pd"] >= 1
    assert core["mlx5_health_try_recover"] == ib["mlx5_ib_rereg_user_mr"] == 0
    assert kernel.modules["mlx5_core"].ran > 200
    assert kernel.modules["mlx5_ib"].ran > 100
