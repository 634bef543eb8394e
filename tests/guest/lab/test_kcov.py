"""Coverage by KCOV, in a kernel that is built with it: ``--linux TREE`` names its sources.

Its build is in the cache, with the smallest configuration.
"""

from __future__ import annotations

import os

import pytest
from helpers.guest.built_kernels import linux_sources

from emu.guests import Guest, GuestOptions, cache
from emu.guests.kernel import kbuild
from emu.guests.kernel.choice import choose
from emu.instruments.coverage.kcov import KcovSession

pytestmark = [pytest.mark.guest, pytest.mark.slow, pytest.mark.timeout(0)]

SUITE = "trixie"
SIGNALS = "(sleep 1; kill -CONT $$) & kill -STOP $$; timeout 1 sleep 9; echo $?"
THREADS = """python3 -c '
import threading
for _ in range(9):
    threading.Thread(target=open("/sys/class/infiniband/mlx5_0/hca_type").read).start()
'"""


@pytest.fixture(scope="module")
def kernel(request):
    """The kernel's image and build tree."""
    tree = linux_sources(request)
    where = cache.subdir("kernels") / f"kcov-{tree.name}"
    kbuild.configure(tree, ["kcov"], where)
    chosen = choose([str(kbuild.build(tree, where, len(os.sched_getaffinity(0))))], SUITE)
    return {"kernel": chosen.kernel, "modules": chosen.modules}


def test_loading_probe_and_commands_are_counted(kernel):
    """What runs in interrupts and kernel threads is not; programs notice nothing."""
    with Guest(GuestOptions(suite=SUITE, probe=False, **kernel)) as guest:
        counting = KcovSession(guest, ["mlx5_core", "mlx5_ib"])
        counting.start()
        assert guest.run(SIGNALS).check().stdout == "124\n"
        guest.run(THREADS).check()
        guest.run("ibv_rc_pingpong >/dev/null & sleep 2; ibv_rc_pingpong localhost").check()
        found = counting.finish()

    (measured,) = found.kernels.values()
    assert measured.missed == 0
    core, ib = measured.modules["mlx5_core"], measured.modules["mlx5_ib"]
    calls = {one.name: one.calls for one in (*core.functions, *ib.functions)}
    assert calls["mlx5_load"] == 1  # the probe
    assert calls["hca_type_show"] == 9  # each in its own thread
    assert calls["mlx5_ib_alloc_ucontext"] == 2  # both ends of the pingpong
    assert calls["mlx5_ib_create_qp"] >= 2
    assert calls["cmd_comp_notifier"] == calls["mlx5_ib_rereg_user_mr"] == 0
    for module in (core, ib):
        assert module.blocks.total > len(module.blocks.ran) > module.ran > 100
