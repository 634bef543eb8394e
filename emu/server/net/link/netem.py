"""The outcome of each packet of a link: a function of seed, link and the packet's number.

Two runs that send the same packets therefore lose, mark and delay the same ones, at any timing. The
model is that of Linux's netem (net/sched/sch_netem.c): loss and duplication first, then corruption,
then delay or reordering.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from emu.device.faults.link import PlannedLink

_RANDOM_NUMBERS = Struct(">8Q")
_ALL = 1 << 64
_PER_PERCENT = _ALL / 100


class NetemDecision(NamedTuple):
    """The outcome for a packet."""

    lost: bool = False
    marked: bool = False
    duplicated: bool = False
    corrupted: bool = False
    overtakes: bool = False
    """Whether the packet is sent without delay."""
    delay_ns: int = 0
    draw: int = 0
    """Random number that chooses the bit to invert."""


class NetemRandom:
    """Random numbers for a direction of a link, packet by packet."""

    def __init__(self, name: str, seed: int) -> None:
        self._name = name
        self.seed = seed
        self.number = 0
        """Number of packets so far."""
        self._is_bad = False
        """State of the Gilbert-Elliott model."""
        self._since_overtaken = 0

    def decide(self, link: PlannedLink) -> NetemDecision:
        """Return the outcome for the next packet, which depends on seed, name and packet number.

        The states of ``gemodel`` and ``gap`` also advance. The decision does not depend on the
        time.
        """
        self.number += 1
        text = f"{self.seed}/{self._name}/{self.number}".encode()
        (
            transition, loss, duplicate, corrupt, draw, jitter, reorder, mark,
        ) = _RANDOM_NUMBERS.unpack(blake2b(text, digest_size=64).digest())  # fmt: skip
        lost = loss < self._loss(link, transition) * _PER_PERCENT
        delay = link.delay
        if link.jitter:
            delay += jitter % (2 * link.jitter + 1) - link.jitter
        return NetemDecision(
            lost,
            mark < link.mark * _PER_PERCENT,
            duplicate < link.duplicate * _PER_PERCENT,
            corrupt < link.corrupt * _PER_PERCENT,
            bool(link.reorder) and not lost and self._overtakes(link, reorder),
            delay,
            draw,
        )

    def _loss(self, link: PlannedLink, transition: int) -> float:
        """Return the probability of loss in percent; advance a Gilbert-Elliott state."""
        if link.gemodel is None:
            return link.loss
        p, r, lost_if_bad, lost_if_good = gilbert_elliott(link.gemodel)
        if transition < (r if self._is_bad else p) * _PER_PERCENT:
            self._is_bad = not self._is_bad
        return lost_if_bad if self._is_bad else lost_if_good

    def _overtakes(self, link: PlannedLink, draw: int) -> bool:
        """Return whether a packet overtakes: by chance ``reorder``, and at most each ``gap``-th."""
        self._since_overtaken += 1
        if self._since_overtaken < link.gap or draw >= link.reorder * _PER_PERCENT:
            return False
        self._since_overtaken = 0
        return True


def gilbert_elliott(given: list[float]) -> tuple[float, float, float, float]:
    """Return p, r, 1-h and 1-k in percent, with tc's defaults: r = 100 - p, 1-h = 100, 1-k = 0."""
    p, *rest = given
    r, lost_if_bad, lost_if_good = (*rest, *(100 - p, 100.0, 0.0)[len(rest) :])
    return p, r, lost_if_bad, lost_if_good
