"""What the fuzzer has learnt of rules, and the smaller inputs that it looks for."""

from __future__ import annotations

from random import Random

import pytest

import firmware_cmds  # noqa: F401  (declares the commands)
from emu.device.cmdif.registry import COMMANDS
from emu.device.faults.parser import from_table
from emu.instruments.fuzz.grammar import key_of, targets
from emu.instruments.fuzz.minimize import minimize_input
from emu.instruments.fuzz.mutate import Input
from emu.instruments.fuzz.rules import Maker
from emu.instruments.fuzz.seen import Culprits, Seen

TARGETS = targets(COMMANDS)
CQ = {"point": "cmd.done", "action": "corrupt", "match": {"op": "CREATE_CQ"}, "set": {"cqn": 1}}
PULSE = {"point": "cqe", "action": "event", "event": "PPS_EVENT"}


@pytest.fixture
def maker():
    """One that knows a workload with three events of CREATE_CQ and none of any other target."""
    made = Maker(TARGETS, Random(1))
    rules = [rule.to_table() for rule in made.census().rule]
    met = {rule["name"]: 3 * (rule.get("match", {}).get("op") == "CREATE_CQ") for rule in rules}
    made.add_census("bind", rules, met)
    made.workload = "bind"
    return made


def test_a_census_counts_every_target_and_changes_nothing():
    plan = Maker(TARGETS, Random(1)).census()
    counted = {key_of(rule.point, rule.match) for rule in plan.rule}
    assert {target.key for target in TARGETS} <= counted
    assert not Input(plan, "bind").has_faults


def test_targets_without_events_are_seldom_chosen(maker):
    chosen = [maker.target("output").key for _ in range(300)]
    assert chosen.count("cmd.done op=CREATE_CQ") > 100
    for rule in ({**CQ, "match": dict(one.match)} for one in TARGETS if one.family == "output"):
        if rule["match"]["op"] != "CREATE_CQ":
            maker.note(rule, has_fired=False)
    assert {maker.target("output").key for _ in range(300)} == {"cmd.done op=CREATE_CQ"}


def test_a_rule_strikes_at_one_of_the_events_that_there_are(maker):
    numbers = {number for _ in range(300) for number in maker.when(CQ).get("index", [1])}
    assert numbers == {1, 2, 3}


def test_what_fired_without_a_census_is_likelier():
    seen = Seen()
    for key, has_fired in (("often", True), ("never", False)):
        for _ in range(20):
            seen.note(key, has_fired=has_fired)
    assert seen.weight("bind", "often") > 10 * seen.weight("bind", "never") > 0


def test_what_has_cost_guests_is_tried_ever_more_seldom():
    culprits = Culprits()
    assert culprits.chance(PULSE) == 1
    chances = []
    for _ in range(5):
        culprits.blame([PULSE])
        chances.append(culprits.chance({**PULSE, "point": "doorbell", "set": {"data.pin": 3}}))
    assert chances == sorted(chances, reverse=True)
    assert 0 < chances[-1] < 0.05
    assert culprits.chance(CQ) == 1


def test_the_known_culprit_of_an_input_is_blamed_alone():
    culprits = Culprits()
    culprits.blame([PULSE])
    culprits.blame([CQ, PULSE])
    assert culprits.chance(CQ) == 1
    culprits.blame([CQ])
    assert culprits.chance(CQ) < 1
    assert culprits.chance({**CQ, "set": {"syndrome": 1}}) == 1


def an_input(*rules):
    named = [{**rule, "name": f"rule-{at}"} for at, rule in enumerate(rules, 1)]
    return Input(from_table({"seed": 5, "rule": named}), "bind")


def test_a_smaller_input_has_the_rule_and_the_field_that_matter():
    both = {**CQ, "set": {"cqn": 1, "syndrome": 2, "status": 3}, "index": [2]}
    tried = []

    def shows(one):
        tried.append(one)
        return any(rule.get("set", {}).get("cqn") == 1 for rule in one.rules)

    found = minimize_input(an_input(PULSE, both, PULSE), shows)
    (rule,) = found.rules
    assert rule == {**CQ, "name": "rule-2"}
    assert found.plan.seed == 5
    assert len(tried) <= 12


def test_a_smaller_input_is_none_when_it_does_not_come_up_again():
    assert minimize_input(an_input(CQ, PULSE), lambda one: False) is None


def test_a_smaller_input_is_what_was_smallest_when_trials_are_used_up():
    one = an_input(PULSE, CQ, PULSE, PULSE)
    found = minimize_input(one, lambda tried: any("set" in rule for rule in tried.rules), limit=2)
    assert len(found.rules) == 2
