"""A campaign of two real runs: one passes, in the other a plan makes the kernel panic."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from emu.device.faults import record
from emu.guests.conformance.results import junit, tap
from emu.instruments.campaign.description import Ended
from emu.instruments.campaign.drive import drive
from emu.instruments.campaign.guest_run import NAME
from emu.instruments.campaign.local import Local
from emu.instruments.campaign.matrix import read
from emu.instruments.campaign.report import cases, report, summary
from emu.instruments.campaign.store import Store, as_json

pytestmark = [pytest.mark.guest, pytest.mark.timeout(600)]
PLAN = Path(__file__).parents[3] / "examples" / "faults" / "command-spurious-completion.toml"
MATRIX = f"""
[guest]
memory = 1024

[[device]]
name = "vf"
devices = ["connectx6-vf"]

[[workload]]
name = "wait"
run = "ibv_devinfo; ./beside && [ ! -e /tmp/x ]"

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
    (tmp_path / "beside").write_text("#!/bin/sh\necho seed $SEED\n")
    (tmp_path / "beside").chmod(0o755)
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


WARNS = PLAN.parents[1] / "findings" / "delay-drop-without-support.toml"


@pytest.mark.slow
@pytest.mark.suite("trixie")
@pytest.mark.usefixtures("lab")
def test_two_campaigns_of_one_matrix_have_equal_reports(tmp_path, suite):
    """A kernel that warns, a command that tells the time: only how long the runs took differs."""
    path = tmp_path / "matrix.toml"
    command = "ibv_devinfo; cat /proc/uptime; date; echo $$; sleep 2"
    head, _, _ = MATRIX.replace("connectx6-vf", "connectx6dx").partition("[[workload]]")
    path.write_text(
        f'{head}[[workload]]\nname = "w"\nrun = "{command}"\n[[plan]]\nfiles = "{WARNS}"\n'
    )
    campaign, told = read(path), []
    for name in ("one", "other"):
        store = Store.create(tmp_path / name, campaign.name, campaign.runs)
        drive(store, Local(1, NAME), lambda done, total, result: None)
        told.append(report(store.name, store.runs, store.results()))
    one, other = (summary(each) for each in told)
    assert "WARNING in __queue_work" in [found["title"] for found in one["findings"]]
    assert one.pop("seconds") != other.pop("seconds")
    assert as_json(one) == as_json(other)
    first, second = (re.sub(r' time="[0-9.]+"', "", junit(cases(each))) for each in told)
    assert first == second
    assert tap(cases(told[0])) == tap(cases(told[1]))
