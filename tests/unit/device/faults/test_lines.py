"""Events in line: a delayed one delays those behind it, but not any number of them."""

import pytest

from emu.device.faults.delivery_actions import MAX_DELAYED, Lines


@pytest.fixture
def made():
    return []


@pytest.fixture
def lines(made):
    return Lines(lambda call: call(), lambda: made.append("empty"))


@pytest.mark.hostile
def test_only_so_many_wait(lines, made, caplog):
    """One line more, and one too many: the calls of its line are made early, in their order."""
    due = lines.delay("other", lambda: made.append("other"))
    lines.delay("one", lambda: made.append(0))
    for number in range(1, MAX_DELAYED - 1):
        assert lines.follow("one", lambda number=number: made.append(number))
    assert made == []
    assert not lines.follow("one", made.clear)
    assert made == [*range(MAX_DELAYED - 1)]
    assert "not delayed" in caplog.text
    assert lines
    due()
    assert made[-2:] == ["other", "empty"]
    assert not lines


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
