"""Objects of the device that have come and not gone."""

from __future__ import annotations

import pytest

from emu.instruments.outcome import Finding, Kind
from emu.instruments.outcome.objects import growing_kinds, settled


class Control:
    def __init__(self, *counts):
        self.counts = list(counts)

    def census(self):
        return {"pd": self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]}


def test_counts_are_taken_when_they_no_longer_change():
    waits = []
    assert settled(Control(9, 8, 8, 7, 7, 7, 3), waits.append) == {"pd": 7}
    assert len(waits) == 5


def test_counts_that_never_settle_are_taken_all_the_same():
    waits = []
    assert settled(Control(*range(1000)), waits.append) == {"pd": 100}
    assert len(waits) == 100


@pytest.mark.parametrize(
    ("numbers", "is_leak"),
    [
        ((3, 4, 5), True),
        ((3, 5, 9), True),
        ((3, 4, 4), False),  # a cache has filled up
        ((3, 4, 3), False),
        ((3, 3, 9), False),
        ((3,), False),
    ],
)
def test_what_grows_in_every_repetition_is_a_leak(numbers, is_leak):
    found = growing_kinds([{"pd": number, "cq": 8} for number in numbers])
    assert [one.kind for one in found] == [Kind.LEAK] * is_leak


def test_each_kind_is_told_for_itself():
    found = growing_kinds([{"pd": 1}, {"pd": 2, "mkey": 1}, {"pd": 3, "mkey": 2}])
    assert found == (
        Finding(
            Kind.LEAK, "objects left in the device: mkey", "",
            ("mkey: 2 more in 2 repetitions (0, 1, 2)",),
        ),
        Finding(
            Kind.LEAK, "objects left in the device: pd", "",
            ("pd: 2 more in 2 repetitions (1, 2, 3)",)
        ),
    )  # fmt: skip
