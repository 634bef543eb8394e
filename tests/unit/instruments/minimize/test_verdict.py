"""Verdicts about trials that may fail by chance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.instruments.minimize.ddmin import ddmin
from emu.instruments.minimize.verdict import MAX_RUNS, TrialResult, Verdicts

FAULTS = [(0, "a", 1), (0, "b", 1)]


class Runs:
    """Outcomes one after the other."""

    def __init__(self, *kinds, fired=None):
        self.left = list(kinds)
        self._fired = fired

    def __call__(self, faults):
        kind = self.left.pop(0)
        return TrialResult(kind, len(faults) if self._fired is None else self._fired)


@pytest.mark.parametrize(
    ("kinds", "shows"),
    [
        (["status 1", "status 1"], True),
        (["", "never asked"], False),
        (["status 1", ""], False),
        (["GuestHungError", "status 1", "status 1"], True),
        (["status 1", "GuestHungError", "status 1"], True),
        (["status 1", "GuestHungError", "ServerError"], False),
    ],
)
def test_a_failure_counts_when_it_comes_twice(kinds, shows):
    runs = Runs(*kinds)
    assert Verdicts(runs).shows(FAULTS) is shows
    assert [*runs.left] in ([], ["never asked"])


def test_another_failure_is_not_the_one():
    """The guest is lost without the faults that matter, and the command has failed with them."""
    runs = Runs("status 1", "status 1", "GuestHungError", "GuestHungError", "status 1", "status 1")
    verdicts = Verdicts(runs)
    assert [verdicts.shows(FAULTS) for _ in range(3)] == [True, False, True]


def test_a_success_counts_when_all_faults_have_fired():
    """Otherwise it is tried again; when they do not fire it is a success all the same."""
    assert not Verdicts(runs := Runs("", "", fired=1)).shows(FAULTS)
    assert not runs.left
    assert Verdicts(Runs("", "status 1", "status 1", fired=1)).shows(FAULTS)


@given(st.data())
def test_a_chance_in_each_trial_changes_nothing(data):
    """Whichever run of a trial it hits, as long as it is one of them."""
    items = [(0, f"r{number}", 1) for number in range(8)]
    culprit = data.draw(st.sampled_from(items))
    hit = {}

    def run(faults):
        number = hit.setdefault(tuple(faults), [0, data.draw(st.integers(0, MAX_RUNS))])
        number[0] += 1
        if number[0] - 1 == number[1]:
            return TrialResult(data.draw(st.sampled_from(["GuestHungError", "status 124"])), 0)
        return TrialResult("status 1" if culprit in faults else "", len(faults))

    shows = Verdicts(run).shows
    assert shows(items)
    assert ddmin(items, shows) == [culprit]
