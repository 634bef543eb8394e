"""Made-up plans: every one can be loaded, and the same seed makes the same ones."""

from __future__ import annotations

import dataclasses
from collections import Counter
from random import Random

import pytest
from helpers.random.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import firmware_cmds  # noqa: F401  (declares the commands)
from emu.device.cmdif.registry import COMMANDS
from emu.device.faults.parser import dump, from_table, load
from emu.device.faults.plan import Plan
from emu.instruments.fuzz.grammar import targets
from emu.instruments.fuzz.loop import Feedback, FuzzLoop
from emu.instruments.fuzz.mutate import Input
from emu.instruments.fuzz.rules import LASTING, Maker
from emu.instruments.fuzz.schedule import Schedule
from emu.instruments.fuzz.values import Dictionary, choose, interesting

TARGETS = targets(COMMANDS)
WORKLOADS = ("probe", "verbs")


class Pretended:
    """A driver of whose code the plan's words decide what runs."""

    def __init__(self):
        self.inputs = []

    def run(self, one):
        self.inputs.append(one)
        rules = one.rules if one.has_faults else []
        words = [f"{rule['action']} {rule.get('match')}" for rule in rules]
        blocks = {("mlx5_core", sum(map(ord, word)) % 997) for word in words} | {("mlx5_core", 1)}
        fired = frozenset(rule["name"] for rule in rules[:1])
        return Feedback(frozenset(blocks), fired, met=self.met(one))

    def met(self, one):
        """Two events of every second target."""
        return {rule["name"]: 2 * (at % 2) for at, rule in enumerate(one.rules)}


def carried_out(seed, count):
    loop, driver = FuzzLoop(TARGETS, WORKLOADS, seed), Pretended()
    steps = [loop.step(driver) for _ in range(count)]
    return loop, driver.inputs, steps


@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 1 << 63))
def test_every_plan_that_is_made_up_can_be_loaded(seed):
    _, inputs, _ = carried_out(seed, 60)
    for one in inputs:
        again = load(dump(one.plan))
        assert [rule.to_table() for rule in again.rule] == one.rules
        assert one.workload in WORKLOADS


def test_the_same_seed_and_feedback_make_the_same_inputs():
    first, second, other = (carried_out(seed, 120)[1] for seed in (7, 7, 8))
    assert [one.id for one in first] == [one.id for one in second]
    assert [one.id for one in first] != [one.id for one in other]


def test_faults_that_last_are_seldom_where_the_driver_stays_bound():
    counts = {}
    for workload in ("probe", "live-frames"):
        maker = Maker(TARGETS, Random(5))
        maker.workload = workload
        counts[workload] = sum(maker.rule()["action"] in LASTING for _ in range(500))
    assert 0 < counts["live-frames"] * 4 < counts["probe"]


def test_the_first_inputs_of_each_workload_have_no_fault():
    _, inputs, _ = carried_out(3, 5)
    assert [one.workload for one in inputs[:4]] == ["probe", "probe", "verbs", "verbs"]
    assert [one.has_faults for one in inputs] == [False] * 4 + [True]
    assert [len(one.rules) > len(TARGETS) for one in inputs[:4]] == [False, True] * 2


def test_what_is_known_of_a_workload_is_not_looked_for_again():
    loop, driver = FuzzLoop(TARGETS, WORKLOADS, 3, known={"verbs"}), Pretended()
    for _ in range(4):
        loop.step(driver)
    assert [one.workload for one in driver.inputs[:3]] == ["probe", "probe", "verbs"]
    assert [one.has_faults for one in driver.inputs] == [False] * 3 + [True]
    assert loop.known == {"probe", "verbs"}


def test_inputs_with_new_blocks_become_parents():
    loop, _, steps = carried_out(5, 200)
    kept = {step.input.id for step in steps if step.new and step.input.has_faults}
    parents = {step.parent for step in steps} - {""}
    assert parents
    assert parents <= kept
    assert len(loop.schedule) == len(kept)


def test_what_a_guest_does_not_survive_has_no_children_and_is_made_seldom():
    class Fragile(Pretended):
        def run(self, one):
            told = super().run(one)
            lost = any(rule["action"] == "event" for rule in one.rules)
            return dataclasses.replace(told, is_lost=lost)

    loop, driver = FuzzLoop(TARGETS, WORKLOADS, 5), Fragile()
    steps = [loop.step(driver) for _ in range(100)]
    lost = {step.input.id for step in steps if step.feedback.is_lost}
    assert lost
    assert not lost & {step.parent for step in steps}


def test_steps_that_follow_each_other():
    maker = Maker(TARGETS, Random(5))
    maker.workload = "probe"
    for _ in range(50):
        steps = maker.sequence()
        places = [at for step in steps for at in step["index"]]
        assert len(places) == len(steps) > 1
        assert places == sorted(places)
        assert len({(step["point"], repr(step.get("match"))) for step in steps}) == 1
        load(dump(from_table({"rule": [{**one, "name": str(n)} for n, one in enumerate(steps)]})))


def test_some_inputs_are_such_steps():
    _, inputs, _ = carried_out(5, 100)
    assert any(len(one.rules) > 1 and all("index" in rule for rule in one.rules) for one in inputs)


def test_a_workload_that_takes_long_is_done_less_often():
    class Slow(Pretended):
        def run(self, one):
            return dataclasses.replace(
                super().run(one), seconds=25 if one.workload == "verbs" else 1
            )

    loop, driver = FuzzLoop(TARGETS, WORKLOADS, 5), Slow()
    for _ in range(120):
        loop.step(driver)
    done = Counter(one.workload for one in driver.inputs)
    assert done["probe"] > 2 * done["verbs"] > 0


def test_an_input_of_another_kernel_is_carried_out_before_any_is_made_up():
    loop, driver = FuzzLoop(TARGETS, WORKLOADS, 1), Pretended()
    other = carried_out(9, 10)[1][-1]
    loop.try_later(other)
    for _ in range(5):
        loop.step(driver)
    assert other.id in [one.id for one in driver.inputs]


def test_targets_reach_every_kind_of_structure():
    found = {(target.family, *(leaf.name for leaf in target.leaves)) for target in TARGETS}
    names = {(row[0], name) for row in found for name in row[1:]}
    assert {
        ("output", "eq_number"),
        ("capability", "capability.num_of_uars_per_page"),
        ("register", "register_data.oper_mtu"),
        ("event", "data.num_pages"),
        ("completion", "byte_cnt"),
        ("read", "value"),
    } <= names


@pytest.mark.parametrize("width", [1, 2, 8, 24, 64])
def test_interesting_numbers_fit_and_have_the_edges(width):
    found, most = interesting(width), (1 << width) - 1
    assert {0, 1, most} <= set(found)
    assert all(0 <= value <= most for value in found)


def test_what_was_learnt_is_tried_again_where_it_fits():
    dictionary = Dictionary()
    dictionary.learn("capability.log_max_qp", 29)
    random = Random(1)
    wide = [choose(random, "other.log_max_qp", 5, dictionary) for _ in range(200)]
    narrow = [choose(random, "other.log_max_qp", 4, dictionary) for _ in range(200)]
    assert 29 in wide
    assert max(narrow) < 16


def test_a_rare_block_makes_its_input_likely():
    schedule = Schedule()
    common, rare = Input(Plan(), "common"), Input(Plan(), "rare")
    for _ in range(99):
        schedule.note([("mlx5_core", 1)])
    schedule.add(common, [("mlx5_core", 1)])
    schedule.note([("mlx5_core", 2)])
    schedule.add(rare, [("mlx5_core", 2)])
    random = Random(0)
    chosen = [schedule.choose(random).workload for _ in range(1000)]
    assert chosen.count("rare") > 950
