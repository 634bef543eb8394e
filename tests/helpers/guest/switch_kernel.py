"""The kernel of guest tests about sub-functions and tc's offload, which Debian's are built without.

It is in the cache as the build of sources of Linux 6.12, which ``mlx5emu kernel`` makes.
``--kernel`` names another one, and ``--suite`` the suite that it runs with.
"""

from __future__ import annotations

import pytest

from emu.guests import GuestOptions, cache
from emu.guests.kernel.choice import choose

SUITE = "trixie"


def switch_kernel():
    """What GuestOptions take for that kernel; the test is skipped when the cache has none."""
    where = cache.cache_dir() / "kernels" / "switch"
    if not (where / "arch/x86/boot/bzImage").is_file():
        pytest.skip(
            "no kernel with CONFIG_MLX5_SF in the cache; with sources of Linux 6.12 these make it:"
            f" mlx5emu kernel config TREE --output {where};"
            f" mlx5emu kernel build TREE --output {where}"
        )
    chosen = choose([str(where)], SUITE)
    return {"suite": SUITE, "kernel": chosen.kernel, "modules": chosen.modules}


def with_rules_in_hardware(lab, suite, devices):
    """Options of a guest whose mlx5_core offloads tc's rules; the test is skipped without one.

    Debian builds it so for 6.1 alone; in the place of 6.12 is the kernel of above.
    """
    kernel = switch_kernel() if suite == "trixie" else {"suite": suite}
    options = GuestOptions(**kernel, devices=devices)
    if lab.get(options).run("grep -q mlx5e_configure_flower /proc/kallsyms").status:
        pytest.skip("the kernel's mlx5_core has no CONFIG_MLX5_CLS_ACT")
    return options
