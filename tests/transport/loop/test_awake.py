"""Which functions a round of the loop asks: those that may have work, each of them once."""

import pytest

pytestmark = pytest.mark.hostile


@pytest.fixture
def others(serve, loop, tmp_path):
    """Three functions with a client each, none of which has work."""
    found = [serve("vfio-user", tmp_path / f"{number}.sock") for number in range(3)]
    for served in found:
        loop.add_transport(served.transport)
        served.wants = served.client()
        served.wants._step = lambda: loop.step(None)
    for _ in range(10):
        loop.step(0)
    return found


def runs(served):
    return [each.function.polls for each in served]


def test_idle_functions_are_not_asked(others, loop):
    before = runs(others)
    for _ in range(20):
        others[0].wants.read(0, 0, 4)
    after = runs(others)
    assert after[0] >= before[0] + 19
    assert after[1:] == before[1:]


def test_one_that_is_given_work_runs_in_the_same_round(others, loop):
    """As when a message reaches another function of the server."""
    first, second, third = (each.function for each in others)
    first.on_poll = second.on_work
    before = runs(others)
    others[0].wants.read(0, 0, 4)
    loop.step(0)
    assert second.polls > before[1]
    assert second.polls == first.polls - before[0] + before[1]
    assert third.polls == before[2]


def test_each_runs_once_in_a_round(others, loop):
    """Two that give each other work do not keep the loop from its clients."""
    first, second, _ = (each.function for each in others)
    first.on_poll, second.on_poll = second.on_work, first.on_work
    others[0].wants.read(0, 0, 4)
    before = runs(others)
    for _ in range(10):
        loop.step(0)
    assert runs(others) == [before[0] + 10, before[1] + 10, before[2]]


def test_one_with_more_to_do_goes_on(others, loop):
    others[2].function.work = 5
    others[2].function.on_work()
    before = runs(others)
    for _ in range(10):
        loop.step(0)
    assert runs(others) == [*before[:2], before[2] + 5]


@pytest.mark.parametrize("how", ["timer", "descriptor"])
def test_all_are_asked_after_what_may_concern_any(others, loop, how, tmp_path):
    """A rule of a fault plan takes effect by a timer, a control command by a descriptor."""
    before = runs(others)
    if how == "timer":
        loop.call_later(0, lambda: None)
        loop.step(0)
    else:
        loop.wake()
        loop.step(None)
        loop.step(0)
    assert runs(others) == [each + 1 for each in before]


def test_a_function_that_has_left_is_not_asked(others, loop):
    function = others[1].function
    loop.remove_transport(others[1].transport)
    before = function.polls
    function.on_work()
    loop.call_later(0, lambda: None)
    loop.step(0)
    loop.step(0)
    assert function.polls == before


def test_the_loop_tells_whose_work_runs(others, loop):
    first, second = (each.function for each in others[:2])
    served = []
    first.on_poll = lambda: served.append(loop.served)
    others[0].wants.read(0, 0, 4)
    loop.call_later(0, lambda: served.append(loop.served))
    loop.step(0)
    second.on_work()
    loop.step(0)
    assert first in served
    assert None in served
    assert loop.served is not first
