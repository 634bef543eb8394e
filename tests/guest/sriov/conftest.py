"""Virtual functions behind a switch that a cable connects with another function of the guest."""

from __future__ import annotations

import pytest
from helpers.guest.guests import no_complaints, run
from helpers.guest.managed_vfs import SAYS, switched, with_peer


@pytest.fixture(scope="module")
def guest(lab, suite, kernel):
    """Its first function has two virtual ones; the second one is behind the cable."""
    with with_peer(lab, suite, **kernel) as guest:
        yield guest


@pytest.fixture
def quiet(guest):
    """The driver has nothing to complain about during the test."""
    with no_complaints(guest, known=SAYS):
        yield


@pytest.fixture(scope="module")
def pair(guest):
    """Both virtual functions in switchdev mode."""
    with switched(guest) as vfs:
        yield vfs


@pytest.fixture
def rules(guest, pair):
    """Representors that take rules; Debian's kernels from 6.12 on lack CONFIG_MLX5_CLS_ACT."""
    if guest.run("grep -q mlx5e_configure_flower /proc/kallsyms").status:
        pytest.skip("the kernel's mlx5_core has no CONFIG_MLX5_CLS_ACT")
    for name in (*(vf.representor for vf in pair), "eth0"):
        run(guest, f"ethtool -K {name} hw-tc-offload on")
    return pair
