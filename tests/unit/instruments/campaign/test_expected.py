"""What is expected of runs, and in what they differ from it."""

import pytest
from helpers.instruments.fake_runs import descriptions

from emu.device.faults.parser import load
from emu.host.user_error import UserError
from emu.instruments.campaign.description import Ended, Expected, RunResult
from emu.instruments.campaign.expected import difference, expected
from emu.instruments.campaign.store import Store

PLAN = '[[rule]]\npoint = "irq"\naction = "drop"\n'
LOG = "<3>[    1.5] mlx5_core 0000:01:00.0: INIT_HCA(0x102) failed\n[ 2.0] probe failed\n"
LINKS = '[expect]\ndmesg = ["a.b"]\n[[link]]\nloss = 1\n'
DMESG = Expected(dmesg=(r"^mlx5_core .*INIT_HCA\(.*failed$", "probe failed"))


def plan(expect):
    return load(f"{PLAN}[expect]\n{expect}")


def test_what_a_plan_expects_and_what_the_matrix_says_instead():
    assert expected(None, None) is None
    assert expected(load(PLAN), None) is None
    assert expected(plan('run = "true"\nstatus = 1'), None) is None  # of the plan's own command
    said = plan('dmesg = ["a.b"]\npanics = true')
    assert expected(said, None) == Expected(dmesg=("a.b",), panics=True)
    assert expected(load(LINKS), None) == Expected(dmesg=("a.b",), needs_fault=False)
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
        (Expected(panics=True, needs_fault=False), {"fired": 0}, "the kernel did not panic"),
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


def test_a_changed_expectation_keeps_the_results(tmp_path):
    """The user edits ``expect`` under [[plan]] after the runs."""
    runs = descriptions(2)
    store = Store.create(tmp_path, "few", runs)
    for run in runs:
        store.put(RunResult(name=run.name, ended=Ended.FAILED))

    def asked(wanted):
        return [run.model_copy(update={"expected": wanted}) for run in runs]

    told = []
    for ends in ((Ended.FAILED,), (Ended.PASSED,)):
        renewed = Store.create(tmp_path, "few", asked(Expected(ends=ends)))
        assert renewed.pending() == []
        told.append({result.otherwise for result in renewed.results().values()})
    assert told == [{""}, {"failed, not passed"}]
    assert "failed, not passed" in (tmp_path / "outputs" / f"{runs[0].name}.txt").read_text()
    with pytest.raises(UserError, match="needs the kernel's log"):
        Store.create(tmp_path, "few", asked(DMESG))
    assert Store.open(tmp_path).runs == renewed.runs
    first, second = (run.name for run in runs)
    with pytest.raises(UserError, match=f"repeat it with --again {second}"):
        Store.create(tmp_path, "few", asked(DMESG), [first])
    assert list(Store.open(tmp_path).results()) == [first, second]
    Store.create(tmp_path, "few", runs)
    assert {result.otherwise for result in Store.open(tmp_path).results().values()} == {None}
    # Without an earlier expectation, results stay without a comparison of the log.
    again = Store.create(tmp_path, "few", asked(DMESG)).results()
    assert {result.otherwise for result in again.values()} == {None}


def test_a_repeated_run_takes_any_new_expectation(tmp_path):
    """Its result, which has no log to compare, is removed."""
    runs = descriptions(2)
    wanted = [run.model_copy(update={"expected": Expected(ends=(Ended.FAILED,))}) for run in runs]
    store = Store.create(tmp_path, "few", wanted)
    for run in runs:
        store.put(RunResult(name=run.name, ended=Ended.FAILED))
    asked = [run.model_copy(update={"expected": DMESG}) for run in runs]
    renewed = Store.create(tmp_path, "few", asked, [run.name for run in runs])
    assert [one.expected for one in renewed.pending()] == [DMESG, DMESG]
