"""Cable of a function's port: plugged, pulled, and frames and trains that come by it."""

from __future__ import annotations

from emu.device.engine import lifecycle
from emu.device.engine.eth import roce
from emu.device.port.eth.frame import Frame
from emu.device.state.hca import Hca


def arrive(hca: Hca, frame: Frame) -> None:
    """Deliver a frame from the cable to the switch of the function's adapter.

    Never raises. A plain switch passes it to the function; a frame for a failed function is lost.
    """
    hca.switch.receive(frame)


def arrive_train(hca: Hca, train: memoryview) -> None:
    """Deliver a train of RoCE packets from the cable (``emu.device.port.train``).

    A malformed train is lost.
    """
    roce.arrive_train(hca, train)


def set_link(hca: Hca, *, up: bool) -> None:
    """Plug or pull the cable of the function's port.

    The drivers of the adapter get PORT_CHANGE, its manager PORT_MODULE_EVENT.
    """
    lifecycle.set_link(hca, up=up)
