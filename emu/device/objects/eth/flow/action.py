"""The actions of a flow table entry, and the vPorts among its destinations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from emu.device.objects.eth.flow_counter import FlowCounter
from emu.device.objects.eth.flow_meter import Metering
from emu.device.objects.eth.packet_reformat import PacketReformat
from emu.device.objects.eth.reshape import Step
from emu.device.objects.object import Object


class FteVerdict(Enum):
    """The verdict of an entry on a packet."""

    FORWARD = "forward"
    DROP = "drop"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class FteAction:
    """The actions of an entry on its packets."""

    verdict: FteVerdict
    destinations: tuple[Object, ...] = ()
    """For FORWARD: flow tables and other receivers. Each of them gets the packet."""
    tag: int = 0
    """Flow tag for the completion, unless a later entry has a tag; 0 is none."""
    counters: tuple[FlowCounter, ...] = ()
    steps: tuple[Step, ...] = ()
    """Changes to the packet, in this order, before its delivery to the destinations."""
    metering: Metering | None = None
    """The meter that colours the packet, after these steps."""

    @property
    def references(self) -> tuple[Object, ...]:
        """All objects that the action refers to: destinations, counters, header contexts, meter.

        Reformats of vPort destinations are included.
        """
        contexts = (step for step in self.steps if isinstance(step, Object))
        of_targets = (each for target in self.vports for each in target.holds())
        meters = () if self.metering is None else (self.metering.aso,)
        return (*self.destinations, *self.counters, *contexts, *of_targets, *meters)

    @property
    def vports(self) -> list[VportTarget]:
        """The vPorts among the destinations."""
        return [target for target in self.destinations if isinstance(target, VportTarget)]


class VportTarget(Object):
    """A vPort, the uplink included, as a destination of an entry in a switch's tables."""

    __slots__ = ("may_return", "number", "port", "reformat")
    kind = "vPort"

    def __init__(self, number: int, port: int, reformat: PacketReformat | None = None) -> None:
        """Create the destination for vPort ``number`` of a physical port's switch.

        ``port`` is the number of the physical port on the board. ``reformat`` changes only the
        packets of this destination.
        """
        super().__init__()
        self.number = number
        self.port = port
        self.reformat = reformat
        self.may_return = False
        """Whether packets of the uplink may return to it."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """``reformat`` as a tuple of steps; empty without one."""
        return () if self.reformat is None else (self.reformat,)

    def holds(self) -> tuple[Object, ...]:
        return () if self.reformat is None else (self.reformat,)

    def __repr__(self) -> str:
        of = f" of port {self.port}" if self.port > 1 else ""
        return f"vPort {self.number:#x}{of}"


FDB_DEFAULT: Final = VportTarget(0, 0)
"""Destination of packets that no entry of an FDB matches. The packet's source determines the vPort:
the uplink for packets of vPorts, the manager for packets of the uplink.
"""
