"""Chooses values for fields of a given width."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from random import Random

from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import QpState, QpType
from layouts.enums.regs import RegId

_ENUMERATIONS: Mapping[str, type[IntEnum]] = {
    "status": Status,
    "syndrome": CqeSyndrome,
    "type": EventType,
    "opcode": Op,
    "register_id": RegId,
    "state": QpState,
    "st": QpType,
}
"""Enumerations of fields, by the last component of their names."""

_OPCODE_SHIFT = 4
_MAX_LEARNED = 32


class Dictionary:
    """Values that led to new blocks, by the last component of the field's name."""

    def __init__(self) -> None:
        self._values: dict[str, list[int]] = {}

    def learn(self, name: str, value: object) -> None:
        """Store a number for a field's name; drop the oldest of more than 32.

        Ignore other types.
        """
        if isinstance(value, bool) or not isinstance(value, int):
            return
        known = self._values.setdefault(last_part(name), [])
        if value not in known:
            known.append(value)
            del known[:-_MAX_LEARNED]

    def of(self, name: str) -> Sequence[int]:
        """Return the remembered values of a field."""
        return self._values.get(last_part(name), ())

    def to_table(self) -> dict[str, list[int]]:
        """Return all values by name."""
        return {name: list(values) for name, values in sorted(self._values.items())}


def last_part(name: str) -> str:
    """Return the last component: ``log_cq_size`` of ``cq_context.log_cq_size``."""
    return name.rpartition(".")[2]


def known_numbers(name: str) -> Iterable[int]:
    """Return the members of the enumeration of the field ``name``; empty if it has none."""
    last = last_part(name)
    if last == "op_own":
        return [opcode << _OPCODE_SHIFT for opcode in CqeOpcode]
    return [int(one) for one in _ENUMERATIONS.get(last, ())]


def interesting(width: int) -> list[int]:
    """Return edge values of ``width`` bits: ends, halves, powers of two and their neighbours."""
    largest = (1 << width) - 1
    values = [0, 1, 2, largest, largest - 1, largest >> 1, (largest >> 1) + 1]
    for power in range(2, width):
        values += [(1 << power) - 1, 1 << power, (1 << power) + 1]
    return list(dict.fromkeys(value for value in values if 0 <= value <= largest))


def choose(random: Random, name: str, width: int, dictionary: Dictionary) -> int:
    """Return a random value of ``width`` bits: learnt, of the field's enumeration, an edge, any."""
    largest = (1 << width) - 1
    learnt = [value for value in dictionary.of(name) if value <= largest]
    named = [value for value in known_numbers(name) if value <= largest]
    draw = random.random()
    if learnt and draw < 0.2:
        return random.choice(learnt)
    if named and draw < 0.4:
        return random.choice(named)
    if draw < 0.6:
        return random.choice([0, 1, largest, largest >> 1])
    if draw < 0.9:
        return random.choice(interesting(width))
    return random.randint(0, largest)
