"""The wire of Ethernet functions: what carries their frames, and one that leads nowhere."""

from __future__ import annotations

from typing import Protocol, TypeVar

from emu.port.eth.frame import Frame

NodeT_contra = TypeVar("NodeT_contra", contravariant=True)
"""A function, as the wire knows it."""


class EthWire(Protocol[NodeT_contra]):
    """What an Ethernet port's cable is plugged into.

    Frames for a function come in through ``emu.engine.eth.receive.arrive``.
    """

    def attach(self, node: NodeT_contra, /) -> None:
        """The function is on the wire; after a reset, its new state replaces the old one."""

    def port_changed(self, node: NodeT_contra, /) -> None:
        """The function's port has come up or gone down, or has other addresses."""

    def transmit(self, source: NodeT_contra, frame: Frame, /) -> None:
        """Carry a frame; it may be lost, which the wire counts. Never blocks, never raises."""


class NoWire(EthWire[NodeT_contra]):
    """A cable whose other end is plugged into nothing that answers: every frame is lost."""

    def attach(self, node: NodeT_contra, /) -> None:
        """Nobody else is here to notice."""

    def port_changed(self, node: NodeT_contra, /) -> None:
        """Nobody else is here to notice."""

    def transmit(self, source: NodeT_contra, frame: Frame, /) -> None:
        """Lose the frame."""
