"""What is expected of runs, and in what they differ from it."""

import pytest
from helpers.instruments.fake_runs import descriptions

from emu.device.faults.parser import load
from emu.instruments.campaign.description import Ended, Expected
from emu.instruments.campaign.expected import difference, expected
from emu.instruments.campaign.store import Store

PLAN = '[[rule]]\npoint = "irq"\naction = "drop"\n'
LOG = "<3>[    1.5] mlx5_core 0000:01:00.0: INIT_HCA(0x102) failed\n[ 2.0] probe failed\n"
DMESG = Expected(dmesg=(r"^mlx5_core .*INIT_HCA\(.*failed$", "probe failed"))


def plan(expect):
    return load(f"{PLAN}[expect]\n{expect}")


def test_what_a_plan_expects_and_what_the_matrix_says_instead():
    assert expected(None, None) is None
    assert expected(load(PLAN), None) is None
    assert expected(plan('run = "true"\nstatus = 1'), None) is None  # of the plan's own command
    said = plan('dmesg = ["a.b"]\npanics = true')
    assert expected(said, None) == Expected(dmesg=("a.b",), panics=True)
    assert expected(said, ["failed"]) == Expected(ends=(Ended.FAILED,))
    assert expected(None, ["passed", "skipped"]) == Expected(ends=(Ended.PASSED, Ended.SKIPPED))
    with pytest.raises(ValueError, match=r"dmesg: '\('"):
        expected(plan('dmesg = ["("]'), None)


@pytest.mark.parametrize(
    ("wanted", "how", "why"),
    [
        (DMESG, {}, ""),
        (DMESG, {"log": ""}, r"the kernel did not log ^mlx5_core .*INIT_HCA\(.*failed$"),
        (DMESG, {"log": LOG.splitlines()[0]}, "the kernel did not log probe failed"),
        (DMESG, {"fired": 0}, "no fault has fired"),
        (DMESG, {"has_panicked": True}, "the kernel panicked"),
        (Expected(panics=True), {}, "the kernel did not panic"),
        (Expected(panics=True), {"has_panicked": True}, ""),
        (Expected(ends=(Ended.FOUND,)), {"fired": 0}, ""),
        (Expected(ends=(Ended.PASSED, Ended.SKIPPED)), {}, "found, not passed or skipped"),
    ],
)
def test_in_what_a_run_differs(wanted, how, why):
    told = {"log": LOG, "fired": 1, "has_panicked": False} | how
    assert difference(wanted, Ended.FOUND, **told) == why


def test_a_campaign_that_an_older_version_began_goes_on(tmp_path):
    """Its file says nothing of what is expected."""
    runs = descriptions(3)
    Store.create(tmp_path, "many", runs)
    asked = [run.model_copy(update={"expected": DMESG, "directory": "/"}) for run in runs]
    assert len(Store.create(tmp_path, "many", asked).pending()) == 3
