"""A campaign of two real runs: one passes, in the other a plan makes the kernel panic."""

from __future__ import annotations

from pathlib import Path

import pytest

from emu.campaign.description import Ended
from emu.campaign.drive import drive
from emu.campaign.guest_run import NAME
from emu.campaign.local import Local
from emu.campaign.matrix import read
from emu.campaign.store import Store
from emu.faults import record

pytestmark = [pytest.mark.guest, pytest.mark.timeout(600)]
PLAN = Path(__file__).parents[2] / "examples" / "faults" / "command-spurious-completion.toml"
MATRIX = f"""
[guest]
memory = 1024

[[device]]
name = "vf"
devices = ["connectx6-vf"]

[[workload]]
name = "wait"
run = "ibv_devinfo; echo seed $SEED; [ ! -e /tmp/x ]"

[[plan]]

[[plan]]
files = "{PLAN}"
"""


@pytest.mark.slow
@pytest.mark.suite("trixie")
@pytest.mark.usefixtures("lab")
def test_findings_come_with_a_title_and_a_record(tmp_path, suite):
    path = tmp_path / "matrix.toml"
    path.write_text(MATRIX)
    campaign = read(path)
    store = Store.create(tmp_path / "out", campaign.name, campaign.runs)
    drive(store, Local(1, NAME), lambda done, total, result: None)
    good, bad = store.results().values()
    assert (good.ended, good.status, good.findings) == (Ended.PASSED, 0, ()), good
    assert "seed 0" in good.output
    assert bad.ended is Ended.FOUND, bad
    assert bad.findings[0].title == (
        "BUG: unable to handle kernel NULL pointer dereference in mlx5_cmd_comp_handler"
    )
    told = record.read(store.record(bad.name).read_text())
    assert bad.fired == len(told.fired) == 1
