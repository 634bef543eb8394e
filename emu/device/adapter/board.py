"""A board: the chip's sensor and clock, and the physical ports, each with an adapter of its own.

As on real boards with two ports, each port has a physical function with a switch and a vPort 0 of
its own: an :class:`Adapter`. What the ports have in common is here. Drivers tell by the system
image GUID that they are of one board (core/main.c: mlx5_register_hca_devcom_comp), and by
``native_port_num`` which port is whose.

Nothing warms an emulated chip; a fault plan can. The cable is a passive one and has no sensor.

Source: PRM "MTCAP", "MTMP"; core/hwmon.c.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic

from emu.device.adapter.lag import MASTER_PORT, Lag
from emu.device.adapter.real_time import RealTime
from emu.device.ports import NodeT

if TYPE_CHECKING:
    from emu.device.adapter.adapter import Adapter, Vhca

UNITS_PER_DEGREE: Final = 8
"""MTMP counts 0.125 degrees Celsius."""
_NORMAL: Final = 50
_CRITICAL: Final = 105


@dataclass(slots=True)
class Sensor:
    """A temperature sensor, in units of MTMP."""

    name: str = "asic"
    """At most 8 characters."""
    temperature: int = _NORMAL * UNITS_PER_DEGREE
    highest: int = _NORMAL * UNITS_PER_DEGREE
    """Since the driver has last reset it."""
    threshold: int = _CRITICAL * UNITS_PER_DEGREE
    """Above it the chip warns its drivers."""

    def measure(self, temperature: int) -> bool:
        """It has this temperature now; whether that is too much, and was not before."""
        was_hot = self.temperature >= self.threshold
        self.temperature = temperature
        self.highest = max(self.highest, temperature)
        return temperature >= self.threshold and not was_hot

    def forget(self) -> None:
        """Begin anew with what was highest."""
        self.highest = self.temperature


class Board(Generic[NodeT]):
    """What the ports of a board share."""

    def __init__(self, guid: int, ports: int = 1) -> None:
        """``guid`` is its system image GUID; it has room for so many ``ports``."""
        self.guid = guid
        self.most_ports = ports
        self.asic = Sensor()
        self.real_time = RealTime()
        """Its clock of the time of day."""
        self.adapters: list[Adapter[NodeT]] = []
        """One for each physical port, in the order of their numbers."""
        self.changes = 0
        """How often a function has come or gone."""
        self.lag: Lag | None = None
        """The LAG of its ports."""

    def add(self, adapter: Adapter[NodeT]) -> int:
        """An adapter for the next port; returns the port's number, from 1 on.

        Raises ValueError for one too many, and for another model than the first port's.
        """
        if len(self.adapters) >= self.most_ports:
            raise ValueError(f"the board has no more than {self.most_ports} ports")
        if any(other.model.name != adapter.model.name for other in self.adapters):
            raise ValueError("the ports of a board are of one model")
        self.adapters.append(adapter)
        return len(self.adapters)

    @property
    def master(self) -> Vhca[NodeT]:
        """The function that its LAG is for."""
        return self.adapters[MASTER_PORT - 1].manager

    def lag_of(self, vhca: Vhca[NodeT]) -> Lag | None:
        """The LAG that a function is the master of, if that decides where its RoCE leaves.

        In a LAG of switches their tables do.
        """
        lag = self.lag
        return lag if lag is not None and not lag.of_switches and vhca is self.master else None

    def end_lag_of(self, vhca: Vhca[NodeT]) -> None:
        """A function stops, and the LAG that it is the master of ends with it."""
        if vhca is self.master:
            self.lag = None

    def managed_by(self, number: int) -> Adapter[NodeT] | None:
        """The adapter whose switch the function with this vhca id manages."""
        candidates = (adapter for adapter in self.adapters if adapter.manager.number == number)
        return next(candidates, None)

    def node_of(self, number: int) -> NodeT | None:
        """The function with this vhca id, if there is one that has power."""
        for adapter in self.adapters:
            vhca = adapter.vhcas.get(number)
            if vhca is not None:
                return vhca.node
        return None

    def has_vport(self, port: int, number: int) -> bool:
        """Whether the switch behind a port has a vPort of this number."""
        return 0 < port <= len(self.adapters) and self.adapters[port - 1].has_vport(number)

    def is_taken(self, number: int) -> bool:
        """Whether a function of the board has this vhca id."""
        return any(number in adapter.vhcas for adapter in self.adapters)
