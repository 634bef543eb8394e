"""The links of a server's functions, set by a plan or by ``mlx5emu net``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emu.device.function.function import Function
from emu.device.ports import Clock
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.ib.local import Wired
from emu.server.net.link.direction import LinkDirection
from emu.server.service.adapter_view import virtual

if TYPE_CHECKING:
    from emu.device.faults.link import PlannedLink

TX, RX = DIRECTIONS = ("tx", "rx")


@dataclass(frozen=True, slots=True)
class Cabling:
    """The networks that the functions of a server are plugged into."""

    clock: Clock
    fabric: Wired
    ports: Sequence[FunctionPort | None] = ()
    """Ports of functions with Ethernet; None for the others."""


def check_functions(indices: Iterable[int] | None, count: int) -> None:
    """Raise ValueError for an index of a function that does not exist; None stands for all."""
    if any(index >= count for index in indices or ()):
        raise ValueError(f"function must be a number below {count}")


class Links:
    """The links that have been set; a cleared one keeps its counts."""

    def __init__(self, functions: Sequence[Function], cabling: Cabling) -> None:
        self._functions = functions
        self._cabling = cabling
        self._links: dict[tuple[int, str], LinkDirection] = {}
        self.seed = 0
        """Seed of the links that are set from now on."""

    def check(self, link: PlannedLink) -> None:
        """Raise ValueError if the entry names a function without a port of its own.

        A function has none if it does not exist, or is virtual with Ethernet. Changes nothing.
        """
        check_functions(link.functions, len(self._functions))
        for index in link.functions or ():
            if self._functions[index].shares_port:
                name = virtual(self._functions, index)["vf"]["name"]
                raise ValueError(
                    f"function {name} is a virtual one: set the link of its physical function,"
                    f" function={name.partition('.')[0]}"
                )

    def existing_functions(self, link: PlannedLink) -> Iterable[int]:
        """Return the indices of the functions with a port of their own that an entry applies to.

        Missing ones are ignored.
        """
        return [
            index
            for index, function in enumerate(self._functions)
            if link.applies_to(index) and not function.shares_port
        ]

    def set(self, link: PlannedLink, index: int) -> None:
        """Set the links of an entry at a function, one or both directions, from the next packet on.

        An entry without properties removes the link but keeps its counts; does nothing if none was
        set.
        """
        for side in DIRECTIONS if link.direction is None else (link.direction,):
            self._set(index, side, link)

    def _set(self, index: int, side: str, link: PlannedLink) -> None:
        """Set or clear the link of one direction (``side``), and create it at first use.

        Clearing a link that was never set does nothing.
        """
        direction = self._links.get((index, side))
        if direction is None:
            if link.is_clear:
                return
            function, clock = self._functions[index], self._cabling.clock
            direction = self._links[index, side] = LinkDirection(
                f"function {index} {side}", clock, lambda: function.hca.ledger, link, self.seed
            )
        direction.change(link, self.seed)
        self._plug(index, side, None if link.is_clear else direction)

    def _plug(self, index: int, side: str, direction: LinkDirection | None) -> None:
        """Insert the link of a direction into the function's Ethernet port or InfiniBand fabric.

        None removes the link: packets then pass without it.
        """
        ports = self._cabling.ports
        port = ports[index] if index < len(ports) else None
        if port is not None:
            if side == TX:
                port.tx_link = direction
            else:
                port.rx_link = direction
            return
        fabric = self._cabling.fabric
        links = fabric.tx_links if side == TX else fabric.rx_links
        key = fabric.key_of(self._functions[index].hca)
        if direction is None:
            links.pop(key, None)
        else:
            links[key] = direction

    def listing(self) -> Iterator[dict[str, object]]:
        """Yield function, direction, properties and counts of each link that is or was set."""
        for (index, side), direction in sorted(self._links.items()):
            yield {"function": index, "direction": side, **direction.about()}
