"""What was found in the stock driver: each plan of examples/findings brings it up again."""

from __future__ import annotations

import logging
import tomllib
from pathlib import Path

import pytest

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
    assert trial.has_come_up, f"{trial.missing}: {trial.log[-3000:]}"
