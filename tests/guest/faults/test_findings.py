"""What was found in the stock driver: each plan of examples/findings brings it up again."""

from __future__ import annotations

import logging
import signal
import tomllib
from pathlib import Path

import pytest
from helpers.guest.guests import SECONDS, run

from emu.guests import GuestOptions
from emu.instruments.fuzz.library import reproduce
from emu.server.service.plan_files import read_plan

pytestmark = [pytest.mark.guest, pytest.mark.timeout(1800)]
FOLDER = Path(__file__).parents[3] / "examples" / "findings"


def _parameters():
    for name, found in tomllib.loads((FOLDER / "findings.toml").read_text()).items():
        marks = () if read_plan(FOLDER / f"{name}.toml").expect.quick else pytest.mark.slow
        yield pytest.param(name, found, id=name, marks=marks)


@pytest.mark.parametrize(("name", "found"), list(_parameters()))
def test_it_comes_up_again(suite, kernel, linux, name, found):
    """As ``mlx5emu fuzz replay`` does it, by the same function."""
    if linux not in found["kernels"]:
        pytest.skip(f"not seen in Linux {linux}")
    options = GuestOptions(**({"suite": suite, "devices": ()} | kernel))
    trial = reproduce(FOLDER / f"{name}.toml", options, logging.warning)
    assert trial.is_reproduced, f"{trial.missing}: {trial.log[-3000:]}"


def test_scattered_data_of_a_region_with_an_iova(guest):
    """A finding of user space: libmlx5 writes to an address that is not the program's."""
    program = (FOLDER / "scattered-data-of-a-region-with-an-iova.py").read_bytes()
    guest.run("cat > /tmp/scattered.py", stdin=program).check()
    crashed = guest.run("python3 /tmp/scattered.py", timeout=SECONDS)
    assert crashed.status == 128 + signal.SIGSEGV, crashed
    assert run(guest, "MLX5_SCATTER_TO_CQE=0 python3 /tmp/scattered.py") == "a short message.\n"
