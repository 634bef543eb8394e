"""Frames that arrive at a function's Ethernet port."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.port.eth.frame import Frame

if TYPE_CHECKING:
    from emu.device.hca import Hca


def arrive(hca: Hca, frame: Frame) -> None:
    """Take a frame from the wire. Nothing raises here, whatever the wire carries.

    No receive queue exists yet, so every frame is counted and discarded.
    """
    port = hca.eth
    if port.is_up:
        port.received.add(frame.data)
        port.received.discards += 1
