"""The range of handles for each kind of object, as the class declares it.

``numbering = Numbering(lambda made: 1 << made.caps.general.log_max_pd)`` in the body of a class
with a ``kind`` adds a table of such objects to every function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from emu.device.objects.uar_pages import UarPages
    from layouts.function.caps import cmd_hca_cap, cmd_hca_cap_2
    from layouts.function.crypto import crypto_cap
    from layouts.function.esw_caps import e_switch_cap, flow_table_eswitch_cap
    from layouts.function.eth_caps import flow_table_nic_cap, qos_cap


class Capabilities(Protocol):
    """The capabilities that bound handles (``emu.device.state.caps.Caps``)."""

    @property
    def general(self) -> cmd_hca_cap: ...
    @property
    def general_2(self) -> cmd_hca_cap_2: ...
    @property
    def flow_table(self) -> flow_table_nic_cap: ...
    @property
    def eswitch_tables(self) -> flow_table_eswitch_cap: ...
    @property
    def eswitch(self) -> e_switch_cap: ...
    @property
    def qos(self) -> qos_cap: ...
    @property
    def crypto(self) -> crypto_cap: ...


class Limits(Protocol):
    """The limits on the handles of a function's objects."""

    @property
    def caps(self) -> Capabilities:
        """The capabilities, as set by the driver."""

    @property
    def doorbell_end(self) -> int:
        """End of the pages in BAR 0 that may be doorbell pages, in bytes."""

    @property
    def uar_pages(self) -> UarPages:
        """The numbering of doorbell pages."""


@dataclass(frozen=True, eq=False, slots=True)
class Numbering:
    """Handles from ``first`` to below ``limit``, which depends on the function; multiples of
    ``step``.

    Classes that declare the same numbering share their handles: no two objects have the same one.
    """

    limit: Callable[[Limits], int]
    first: int = 1
    step: Callable[[Limits], int] | None = None
    """Distance of two handles; 1 without it."""
    within: Numbering | None = None
    """The shared numbering, of which this one has at most ``limit - first`` handles."""

    def at_most(self, limit: Callable[[Limits], int]) -> Numbering:
        """Return a numbering that shares these handles, for at most ``limit - first`` objects."""
        return Numbering(limit, self.first, self.step, self.within or self)

    @property
    def space(self) -> Numbering:
        """The numbering that owns the handles: this one, unless it shares those of another."""
        return self.within or self
