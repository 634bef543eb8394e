"""MTU, rate and packet life time: a query may request more, less, an exact value, or the best.

Source: IBTA volume 1, 15.2.5.16 (PathRecord, selectors) and 15.2.5.17 (MCMemberRecord).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from emu.device.port.ib.endport import RATE_MBPS
from emu.server.net.ib.sa.query import Query
from layouts.prm import Prm
from layouts.wire.sa import Selector

_COMPARE: dict[Selector, Callable[[int, int], bool]] = {
    Selector.GT: operator.gt,
    Selector.LT: operator.lt,
    Selector.EQ: operator.eq,
    Selector.BEST: lambda value, asked: True,
}


class Quantity:
    """A field of a record with a selector beside it.

    ``ranked`` has every value, best first; a port that supports a value supports all worse ones.
    ``size`` maps a value to the number by which values are compared.
    """

    def __init__(self, name: str, ranked: Sequence[int], size: Callable[[int], int]) -> None:
        self.name = name
        self.fields = (name, f"{name}_selector")
        self._ranked = ranked
        self._size = size

    def fits(self, query: Query[Prm], value: int) -> bool:
        """Return whether ``value`` matches the query; True if the field is not selected."""
        if not query.has(*self.fields):
            return True
        asked, selector = (getattr(query.requested, name) for name in self.fields)
        return _COMPARE[Selector(selector)](self._size(value), self._size(asked))

    def choose(self, query: Query[Prm], best: int) -> int | None:
        """Return the best value, ``best`` or worse, that matches the query; None without one.

        Raises ValueError if ``best`` is not among the ranked values.
        """
        available = self._ranked[self._ranked.index(best) :]
        return next((value for value in available if self.fits(query, value)), None)

    def is_worse(self, value: int, other: int) -> bool:
        """Return whether ``value`` is worse than ``other``."""
        return self._ranked.index(value) > self._ranked.index(other)

    def worse(self, *values: int) -> int:
        """Return the worst of several values."""
        return max(values, key=self._ranked.index)


def _mbps(rate: int) -> int:
    return RATE_MBPS.get(rate, 0)


MTU = Quantity("mtu", range(5, 0, -1), int)
RATE = Quantity("rate", sorted(RATE_MBPS, key=_mbps, reverse=True), _mbps)
PACKET_LIFE_TIME = Quantity("packet_life_time", range(64), int)
QUANTITIES = (MTU, RATE, PACKET_LIFE_TIME)

SHORTEST_LIFE = 18
"""4.096 us * 2**18: the packet life time of this fabric, the usual value of subnet managers."""
