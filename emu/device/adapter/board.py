"""A board: the chip's sensor and clock, and the physical ports, each with an adapter of its own.

On boards with two ports, each port has a physical function with a switch and a vPort 0 of its own:
an :class:`Adapter`. The board holds the state that the ports share. Drivers recognise the
functions of one board by the system image GUID (core/main.c: mlx5_register_hca_devcom_comp), and
the port of each by ``native_port_num``.

The emulated temperature is constant unless a fault plan changes it. The cable is passive and has no
sensor.

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
"""MTMP counts in units of 0.125 degrees Celsius."""
_NORMAL: Final = 50
_CRITICAL: Final = 105


@dataclass(slots=True)
class Sensor:
    """A temperature sensor, in units of MTMP."""

    name: str = "asic"
    """Name, at most 8 characters."""
    temperature: int = _NORMAL * UNITS_PER_DEGREE
    highest: int = _NORMAL * UNITS_PER_DEGREE
    """Maximum since the driver's last reset of it."""
    threshold: int = _CRITICAL * UNITS_PER_DEGREE
    """Temperature from which on the chip warns its drivers."""

    def measure(self, temperature: int) -> bool:
        """Set the temperature and the maximum; return whether it has just reached the threshold.

        False below the threshold, and while the temperature stays at or above it. Raises no event.
        """
        was_hot = self.temperature >= self.threshold
        self.temperature = temperature
        self.highest = max(self.highest, temperature)
        return temperature >= self.threshold and not was_hot

    def forget(self) -> None:
        """Reset the maximum to the current temperature."""
        self.highest = self.temperature


class Board(Generic[NodeT]):
    """State that the ports of a board share."""

    def __init__(self, guid: int, ports: int = 1) -> None:
        """Create a board with system image GUID ``guid`` and space for ``ports`` ports."""
        self.guid = guid
        self.max_ports = ports
        self.asic = Sensor()
        self.real_time = RealTime()
        """Clock of the time of day."""
        self.adapters: list[Adapter[NodeT]] = []
        """One adapter for each physical port, in the order of port numbers."""
        self.changes = 0
        """Number of times that a function was added or removed."""
        self.lag: Lag | None = None
        """The LAG of the ports."""

    def add(self, adapter: Adapter[NodeT]) -> int:
        """Add an adapter for the next port; return the port's number, from 1 on.

        Raises ValueError when all ports are in use, and for a model that differs from the first
        port's.
        """
        if len(self.adapters) >= self.max_ports:
            raise ValueError(f"the board has only {self.max_ports} ports")
        if any(other.model.name != adapter.model.name for other in self.adapters):
            raise ValueError("all ports of a board must have the same model")
        self.adapters.append(adapter)
        return len(self.adapters)

    @property
    def master(self) -> Vhca[NodeT]:
        """The master function of the LAG."""
        return self.adapters[MASTER_PORT - 1].manager

    def lag_of(self, vhca: Vhca[NodeT]) -> Lag | None:
        """Return the LAG whose master is ``vhca``, if the LAG determines the egress port of RoCE.

        In a LAG of switches their tables determine it, and the result is None.
        """
        lag = self.lag
        return lag if lag is not None and not lag.of_switches and vhca is self.master else None

    def end_lag_of(self, vhca: Vhca[NodeT]) -> None:
        """End the LAG if ``vhca``, a function that stops, is its master; else do nothing."""
        if vhca is self.master:
            self.lag = None

    def managed_by(self, number: int) -> Adapter[NodeT] | None:
        """Return the adapter whose switch the function with this vhca id manages, or None."""
        candidates = (adapter for adapter in self.adapters if adapter.manager.number == number)
        return next(candidates, None)

    def node_of(self, number: int) -> NodeT | None:
        """Return the function with this vhca id; None if none has it, or if it has no power."""
        for adapter in self.adapters:
            vhca = adapter.vhcas.get(number)
            if vhca is not None:
                return vhca.node
        return None

    def has_vport(self, port: int, number: int) -> bool:
        """Return whether the switch behind a port has a vPort of this number."""
        return 0 < port <= len(self.adapters) and self.adapters[port - 1].has_vport(number)

    def is_taken(self, number: int) -> bool:
        """Return whether a function of the board has this vhca id."""
        return any(number in adapter.vhcas for adapter in self.adapters)
