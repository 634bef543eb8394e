"""The kernel of guest tests about sub-functions and tc's offload, which Debian's are built without.

It is in the cache as the build of sources of Linux 6.12, which ``mlx5emu kernel`` makes.
``--kernel`` names another one, and ``--suite`` the suite that it runs with.
"""

from __future__ import annotations

import pytest

from emu.guests import cache
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
