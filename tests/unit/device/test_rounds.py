"""The budget of a round: what waits for the next ones, in which order, and who is next."""

import ast
import re
from pathlib import Path

import pytest

from emu.device.rounds.backlog import MAX_WAITING, MAX_WAITING_BYTES, Backlog
from emu.device.rounds.budget import (
    CLIENT_BUDGET,
    POLL_BUDGET,
    RX_BUDGET,
    SEGMENT_BUDGET,
    TIMER_BUDGET,
    Budget,
)


class World:
    """Lines whose work costs steps, and notes what it has done in which round."""

    def __init__(self):
        self.budget = Budget()
        self.held = 0
        self.done = []
        self.failures = 0

    def line(self):
        return Backlog(self.budget, self.contain, self.hold)

    def contain(self, call):
        try:
            call()
        except ZeroDivisionError:
            self.failures += 1

    def hold(self, size):
        self.held += size

    def work(self, name, cost):
        self.budget.charge(cost)
        self.done.append((self.budget.number, name))

    def in_portions(self, name, turns, cost):
        for number in range(turns):
            while self.budget.exhausted(self.budget.limit):
                yield
            self.work((name, number), cost)

    def rounds(self, most=1000):
        """Rounds until nothing waits; the steps of the most expensive one."""
        longest = self.budget.steps
        for _ in range(most):
            if not self.budget.is_waiting:
                return longest
            self.budget.begin()
            longest = max(longest, self.budget.steps)
        raise AssertionError("it never ends")

    @property
    def names(self):
        return [name for _, name in self.done]


@pytest.fixture
def world():
    return World()


def test_what_has_room_is_done_at_once(world):
    line = world.line()
    for number in range(10):
        assert line.do(100, world.work, number, 1)
    assert world.names == list(range(10))
    assert (len(line), world.held, world.budget.is_waiting) == (0, 0, False)


def test_what_comes_late_goes_on_in_the_next_rounds_in_order(world):
    line, cost = world.line(), POLL_BUDGET // 4
    for number in range(100):
        assert line.do(100, world.work, number, cost)
    assert len(world.done) == 5
    assert line.octets == 95 * 100
    assert world.held > 95 * 100
    assert world.rounds() <= POLL_BUDGET + cost + 1
    assert world.names == list(range(100))
    assert (line.octets, world.held) == (0, 0)


def test_after_lines_that_took_a_round_the_next_one_is_the_queues(world):
    for name in "ab":
        world.line().begin(world.in_portions(name, 100, POLL_BUDGET // 4), 1)
    had = []
    for _ in range(8):
        world.budget.begin()
        had.append(world.budget.exhausted(POLL_BUDGET))
    assert had == [True, True, False, True, True, False, True, True]


def test_nothing_overtakes_what_waits(world):
    line = world.line()
    world.budget.steps = POLL_BUDGET + 1
    line.do(1, world.work, "first", 1)
    world.budget.steps = 0
    line.do(1, world.work, "second", 1)
    assert not line.is_free
    world.rounds()
    assert world.names == ["first", "second"]


def test_work_in_portions_goes_on_before_what_came_after_it(world):
    line = world.line()
    line.begin(world.in_portions("a", 40, POLL_BUDGET // 4))
    line.do(1, world.work, "b", 1)
    assert world.rounds() <= POLL_BUDGET * 5 // 4 + 1
    assert world.names == [*(("a", number) for number in range(40)), "b"]


def test_sixty_four_receivers_of_one_frame_share_the_rounds(world):
    lines, cost = [world.line() for _ in range(64)], 100
    for number, line in enumerate(lines):
        line.do(1, line.begin, world.in_portions(number, 200, cost))
    assert world.rounds(10_000) <= POLL_BUDGET + cost + 64
    assert len(world.done) == 64 * 200
    for number in range(64):
        own = [turn for name, turn in world.names if name == number]
        assert own == list(range(200))


def test_queues_get_a_round_between_two_shares_of_a_line(world):
    """Whatever waits, and however much more comes meanwhile."""
    line, turns = world.line(), 0
    for _ in range(100):
        line.do(1, world.work, "frame", POLL_BUDGET + 1)
        world.budget.begin()
        turns += not world.budget.exhausted(POLL_BUDGET)
    assert turns >= 49
    assert world.names.count("frame") >= 49


def test_a_line_waits_for_one_share_of_each_other_line(world):
    greedy, modest = world.line(), world.line()
    greedy.begin(world.in_portions("greedy", 100, POLL_BUDGET))
    modest.do(1, world.work, "modest", 1)
    for _ in range(4):
        world.budget.begin()
    assert "modest" in world.names


@pytest.mark.hostile
def test_a_line_has_room_for_so_many(world):
    line = world.line()
    world.budget.steps = POLL_BUDGET + 1
    taken = [line.do(1, world.work, number, 0) for number in range(MAX_WAITING + 5)]
    assert taken == [True] * MAX_WAITING + [False] * 5
    line.clear()
    assert [line.do(MAX_WAITING_BYTES // 2, world.work, 0, 0) for _ in range(3)] == [
        True,
        True,
        False,
    ]


@pytest.mark.hostile
def test_an_exception_costs_one_item(world):
    line = world.line()
    world.budget.steps = POLL_BUDGET + 1
    line.do(1, lambda: 1 // 0)
    line.do(1, world.work, "after", 1)
    world.rounds()
    assert (world.failures, world.names, world.held) == (1, ["after"], 0)


def test_what_is_cleared_is_gone_and_nothing_refers_to_the_line(world):
    line = world.line()
    line.begin(world.in_portions("a", 40, POLL_BUDGET))
    line.do(1, world.work, "b", 1)
    line.clear()
    assert (len(line), world.held, world.budget.is_waiting) == (0, 0, False)
    before = list(world.done)
    world.budget.begin()
    assert world.done == before


def test_sockets_have_room_behind_the_turns(world):
    line = world.line()
    world.budget.steps = POLL_BUDGET + 1
    assert not line.is_free
    world.budget.listen()
    assert line.is_free
    world.budget.steps = RX_BUDGET + 1
    assert not line.is_free
    world.budget.begin()
    assert world.budget.limit == POLL_BUDGET


# One place that charges.


ROOT = Path(__file__).resolve().parents[3]


def changes_of_steps(source):
    """Where a round's count is changed by anything else than ``charge``."""
    for node in ast.walk(ast.parse(source)):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr == "steps":
                of = ast.unparse(target.value)
                if of.split(".")[-1].strip("_") == "budget":
                    yield target.lineno


def test_only_the_round_itself_changes_its_count():
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ("emu", "firmware_cmds")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in changes_of_steps(path.read_text())
    ]
    assert not found


@pytest.mark.parametrize(
    "line", ["hca.budget.steps += 1", "budget.steps = 4", "self._clock.budget.steps -= 1"]
)
def test_rule_finds_who_charges_past_the_round(line):
    assert list(changes_of_steps(line))


def test_questions_have_their_levels(world):
    """Each party stops at a level of its own, one after the other as the round gets on."""
    found, budget = [], world.budget
    for steps in (TIMER_BUDGET, POLL_BUDGET, CLIENT_BUDGET, RX_BUDGET):
        for more in (0, 1):
            budget.begin()
            budget.listen()
            budget.charge(steps)
            budget.charge(more)
            levels = (TIMER_BUDGET, POLL_BUDGET, CLIENT_BUDGET, budget.limit, RX_BUDGET)
            found.append(tuple(map(budget.exhausted, levels)))
    assert [sum(answers) for answers in found] == [0, 1, 1, 2, 2, 3, 3, 5]
    assert all(answers == tuple(sorted(answers, reverse=True)) for answers in found)


def test_what_arrives_waits_sooner_before_sockets_are_read(world):
    world.budget.charge(POLL_BUDGET + 1)
    assert world.budget.exhausted(world.budget.limit)
    assert not world.budget.exhausted(RX_BUDGET)
    world.budget.listen()
    assert not world.budget.exhausted(world.budget.limit)


def test_share_ends_with_the_round(world):
    assert world.budget.segment_end() == SEGMENT_BUDGET
    world.budget.charge(POLL_BUDGET - 10)
    assert world.budget.segment_end() == POLL_BUDGET


SIZE = re.compile(r"^_?\w*(STEPS?_PER_|PER_(STEP|TURN|ROUND|PORTION)$|AT_ONCE$)")


def test_what_a_share_gathers_is_done_at_its_end(world):
    done = []
    world.budget.is_gathering = True
    assert world.budget.is_gathering
    world.budget.at_end(lambda: done.append(1))
    assert done == []
    world.budget.release()
    assert done == [1]
    assert not world.budget.is_gathering
    world.budget.release()
    assert done == [1]


def test_what_waits_for_the_end_of_the_turns_is_done_once(world):
    done = []
    world.budget.after_polls(lambda: done.append(1))
    assert done == []
    world.budget.end_polls()
    world.budget.end_polls()
    assert done == [1]


def test_a_line_that_goes_on_is_a_share(world):
    line, seen = world.line(), []
    world.budget.charge(POLL_BUDGET + 1)
    line.keep(1, lambda: world.budget.at_end(lambda: seen.append(world.budget.is_gathering)))
    world.budget.begin()
    assert seen == [False]


def test_costs_and_sizes_stand_together():
    """What a round, a turn or a portion holds is declared in emu/device/rounds and nowhere else."""
    found = [
        f"{path.relative_to(ROOT)}: {ast.unparse(target)}"
        for folder in ("emu/device", "emu/server", "firmware_cmds")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.parent.name != "rounds"
        for node in ast.parse(path.read_text()).body
        for target in getattr(node, "targets", [getattr(node, "target", None)])
        if isinstance(target, ast.Name) and SIZE.match(target.id)
    ]
    assert not found
