"""Kernels that tests build of the sources that ``--linux`` names, and find in the cache later."""

from __future__ import annotations

import os

import pytest

from emu.guests import cache
from emu.guests.kernel import kbuild, kconfig
from emu.guests.kernel.binaries import is_uml
from emu.guests.kernel.choice import choose

SUITE = "trixie"


def linux_sources(request):
    """The tree that ``--linux`` names; without it the test is skipped."""
    sources = request.config.getoption("--linux")
    if sources is None:
        pytest.skip("--linux names no kernel source tree")
    return sources.resolve()


def uml_kernel(request, name, debug=()):
    """Options of a guest with a User-Mode Linux kernel, of sources or of a build of them."""
    tree = linux_sources(request)
    if not (tree / "linux").is_file():
        where = cache.subdir("kernels") / f"{name}-{tree.name}"
        if not (where / ".config").is_file():
            kbuild.configure(tree, debug, where, kconfig.UML)
        tree = kbuild.build(tree, where, len(os.sched_getaffinity(0)))
    chosen = choose([str(tree)], SUITE)
    assert is_uml(chosen.kernel)
    return {"suite": SUITE, "kernel": chosen.kernel, "modules": chosen.modules}
