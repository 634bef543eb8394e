"""Events in line: a delayed one delays those behind it, but not any number of them."""

from functools import partial

import pytest

from emu.device.faults.lines import MAX_DELAYED, Lines
from emu.device.rounds.sizes import LATE_PER_ROUND
from emu.driver.world.clock import HandClock


@pytest.fixture
def made():
    return []


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def lines(made, clock):
    return Lines(
        lambda call: call(), lambda: made.append("empty"), lambda call: clock.call_later(0, call)
    )


@pytest.mark.hostile
def test_only_so_many_wait(lines, made, clock, caplog):
    """One line more, and one too many: the calls of its line are made early, in their order."""
    due = lines.delay("other", lambda: made.append("other"))
    lines.delay("one", lambda: made.append(0))
    for number in range(1, MAX_DELAYED - 1):
        assert lines.follow("one", partial(made.append, number))
    assert made == []
    assert lines.follow("one", partial(made.append, MAX_DELAYED - 1))
    assert made == [*range(LATE_PER_ROUND)]
    assert "not delayed" in caplog.text
    clock.advance(0)
    assert made == [*range(MAX_DELAYED)]
    assert not lines.follow("one", made.clear)
    assert lines
    due()
    assert made[-2:] == ["other", "empty"]
    assert not lines


@pytest.mark.hostile
def test_a_long_line_takes_several_rounds(lines, made, clock):
    """One more joins it in between; a round that follows makes no more than the first."""
    due = lines.delay("one", lambda: made.append(0))
    for number in range(1, 2 * LATE_PER_ROUND):
        lines.follow("one", partial(made.append, number))
    due()
    assert made == [*range(LATE_PER_ROUND)]
    lines.follow("one", partial(made.append, 2 * LATE_PER_ROUND))
    due = lines.delay("one", lambda: made.append("late"))
    clock.call_later(0, lambda: made.append("other"))
    clock.advance(0)
    assert made == [*range(2 * LATE_PER_ROUND), "other", 2 * LATE_PER_ROUND]
    assert clock.waiting() == 0
    due()
    assert made[-2:] == ["late", "empty"]


@pytest.mark.hostile
def test_the_rest_of_a_long_line_can_be_forgotten(lines, made, clock):
    due = lines.delay("one", lambda: made.append(0))
    for number in range(1, 2 * LATE_PER_ROUND):
        lines.follow("one", partial(made.append, number))
    due()
    lines.clear()
    assert not lines
    assert clock.waiting() == 0
    assert made == [*range(LATE_PER_ROUND)]


def test_a_call_may_put_others_behind_it(lines, made):
    due = lines.delay("one", lambda: lines.follow("one", lambda: made.append("behind")))
    due()
    assert made == ["behind", "empty"]


def test_what_is_forgotten_is_not_made(lines, made):
    due = lines.delay("one", lambda: made.append(1))
    lines.follow("one", lambda: made.append(2))
    lines.clear()
    due()
    assert made == []
    assert not lines.follow("one", made.clear)
