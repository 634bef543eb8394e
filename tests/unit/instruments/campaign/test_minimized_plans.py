"""Minimized plans: trials with fewer faults, distinguished by the finding's title."""

import json

from helpers.instruments.fake_runs import descriptions

from emu.device.faults.parser import load
from emu.instruments.campaign import minimize as module
from emu.instruments.campaign.description import Ended, RunFinding, RunResult
from emu.instruments.campaign.minimize import minimize_plan, slug
from emu.instruments.outcome import Kind

RULES = [
    {"name": name, "point": "cmd", "action": "fail", "match": {"op": "CREATE_CQ"}}
    for name in ("a", "b", "c")
]
HEAD = {"record": 1, "versions": {}, "seed": 0, "devices": [], "run": {}, "plan": {"rule": RULES}}
FIRED = [("a", 1), ("b", 1), ("b", 2), ("b", 3), ("c", 1)]
RECORD = "".join(
    json.dumps(line) + "\n"
    for line in (
        HEAD,
        *(
            {"function": 0, "rule": rule, "n": n, "point": "cmd", "action": "fail", "event": {}}
            for rule, n in FIRED
        ),
    )
)


def bench(title, culprits):
    """A guest in which the finding comes when these faults strike."""
    trials = []

    def carry_out(run):
        plan = load(run.plan)
        struck = {(rule.name, n) for rule in plan.rule for n in rule.index}
        trials.append(struck)
        told = (RunFinding(kind=Kind.WARNING, title=title),) if culprits <= struck else ()
        return RunResult(name=run.name, ended=Ended.FOUND if told else Ended.PASSED, findings=told)

    return carry_out, trials


def faults(plan):
    return {(rule.name, n) for rule in load(plan).rule for n in rule.index}


def test_what_does_not_matter_is_left_out():
    (run,) = descriptions(1)
    carry_out, trials = bench("t", {("b", 2)})
    assert faults(minimize_plan(run, RECORD, "t", carry_out)) == {("b", 2)}
    assert len(trials) == len({frozenset(trial) for trial in trials})


def test_another_finding_does_not_count():
    (run,) = descriptions(1)
    carry_out, trials = bench("something else", set())
    assert minimize_plan(run, RECORD, "t", carry_out) is None
    assert len(trials) == 1


def test_the_smallest_so_far_is_kept_when_trials_are_used_up(monkeypatch):
    monkeypatch.setattr(module, "MAX_TRIALS", 5)
    (run,) = descriptions(1)
    carry_out, trials = bench("t", {("b", 2)})
    found = faults(minimize_plan(run, RECORD, "t", carry_out))
    assert {("b", 2)} <= found < set(FIRED)
    assert len(trials) == 5


def test_what_is_no_record_has_no_plan():
    (run,) = descriptions(1)
    assert minimize_plan(run, "{", "t", None) is None


def test_names_of_files_differ_where_titles_do():
    one, other = slug("WARNING in a-b"), slug("WARNING in a/b")
    assert one != other
    assert one.startswith("warning-in-a-b-")
