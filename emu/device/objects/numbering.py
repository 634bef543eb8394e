"""How the objects of a kind are numbered, as their class declares it.

``numbering = Numbering(lambda made: 1 << made.caps.general.log_max_pd)`` in the body of a class
with a ``kind`` gives every function a table of such objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from layouts.function.caps import CmdHcaCap, CmdHcaCap2
    from layouts.function.crypto import CryptoCap
    from layouts.function.esw_caps import ESwitchCap, FlowTableEswitchCap
    from layouts.function.eth_caps import FlowTableNicCap, QosCap


class Capabilities(Protocol):
    """Those capabilities that bound numbers (``emu.device.state.caps.Caps``)."""

    @property
    def general(self) -> CmdHcaCap: ...
    @property
    def general_2(self) -> CmdHcaCap2: ...
    @property
    def flow_table(self) -> FlowTableNicCap: ...
    @property
    def eswitch_tables(self) -> FlowTableEswitchCap: ...
    @property
    def eswitch(self) -> ESwitchCap: ...
    @property
    def qos(self) -> QosCap: ...
    @property
    def crypto(self) -> CryptoCap: ...


class Limits(Protocol):
    """What bounds the numbers of a function's objects."""

    @property
    def caps(self) -> Capabilities:
        """As the driver has set them."""

    @property
    def doorbell_end(self) -> int:
        """Where the pages end in BAR 0 that may be doorbell pages, in bytes."""


@dataclass(frozen=True, eq=False, slots=True)
class Numbering:
    """Handles run from ``first`` to below ``limit``, which depends on the function.

    Classes that declare the same numbering share their numbers: no two objects have the same one.
    """

    limit: Callable[[Limits], int]
    first: int = 1
    within: Numbering | None = None
    """The numbering that it shares, of which it has ``limit - first`` numbers at most."""

    def at_most(self, limit: Callable[[Limits], int]) -> Numbering:
        """These numbers, shared, for a kind that has fewer objects: ``limit - first``."""
        return Numbering(limit, self.first, self.within or self)

    @property
    def space(self) -> Numbering:
        """The numbering whose numbers these are."""
        return self.within or self
