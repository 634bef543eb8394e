"""Sums and differences of traffic: no counter is left out."""

from __future__ import annotations

from dataclasses import fields

from emu.device.port.counts import Traffic
from emu.device.port.eth.traffic import SIZE_LIMITS, Direction


def traffic(factor):
    """Traffic in which every counter is another multiple of ``factor``."""
    made = Direction()
    for number, field in enumerate(fields(Direction), 1):
        value = getattr(made, field.name)
        if isinstance(value, int):
            setattr(made, field.name, factor * number)
        elif isinstance(value, Traffic):
            setattr(made, field.name, Traffic(factor * number, factor * (number + 100)))
    made.sizes = [factor * number for number in range(len(SIZE_LIMITS) + 1)]
    made.priorities = {3: Traffic(factor, 2 * factor)}
    return made


def counters(direction):
    return {
        field.name: getattr(direction, field.name)
        for field in fields(Direction)
        if field.name != "qos"
    }


def test_a_sum_has_all_counters():
    assert counters(traffic(2) + traffic(3)) == counters(traffic(5))


def test_a_difference_has_all_counters():
    """The traffic since a copy was made, for example, has no errors from before."""
    assert counters(traffic(5).without(traffic(3))) == counters(traffic(2))
