"""A port of a segment, and its counts of frames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from emu.device.engine.eth.rx_credits import MANY
from emu.device.port.eth.frame import MIN_BYTES, Frame
from emu.device.port.train import Train
from emu.device.ports import Buffer
from emu.server.net.eth.loops import UplinkGuard


class Segment(Protocol):
    """A segment as seen by its ports."""

    def forward(self, source: SegmentPort, frame: Frame) -> None:
        """Forward a frame received from a port."""

    def credits(self) -> int:
        """Return the number of frames that a pausable peer should send now."""


class SegmentPort:
    """A port of a segment; subclasses implement the attached device."""

    is_uplink = False
    """Whether the segment continues behind the port, perhaps in a loop to another port."""
    is_fabric = False
    """Whether the port leads to segments of other processes of the fabric."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.received = 0
        """Frames received from the port; a super-frame counts as one."""
        self.sent = 0
        """Frames sent to the port."""
        self.dropped: Counter[str] = Counter()
        """Frames dropped at the port in either direction, by reason."""
        self.guard = UplinkGuard() if self.is_uplink else None

    @property
    def is_up(self) -> bool:
        """Whether frames can be sent to the port."""
        return True

    def credits(self, now_ns: int) -> int:
        """Return the number of frames that the port accepts without loss now; here MANY."""
        return MANY

    @property
    def is_pausing(self) -> bool:
        """Whether pausable senders should wait, as behind a port that sends pause frames."""
        return False

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when the port accepts frames without loss again; here at once."""
        callback()

    def deliver(self, frame: Frame) -> None:
        """Send a frame to the port, or count the frame in ``dropped``.

        Never raises. Not implemented here: each subclass defines the transport.
        """
        raise NotImplementedError

    @property
    def takes_trains(self) -> bool:
        """Whether the port accepts trains of RoCE packets now."""
        return False

    def deliver_train(self, pieces: Sequence[Buffer], train: Train | None = None) -> bool:
        """Send a train, with buffers valid only during the call; return False to pause senders.

        ``train`` is the result of ``parse_train`` for these bytes, if it was called. Not
        implemented here; callers check ``takes_trains`` first.
        """
        raise NotImplementedError

    def about(self) -> dict[str, object]:
        """Return name, link state and counts of the port, with drops by reason."""
        return {
            "port": self.name,
            "up": self.is_up,
            "received": self.received,
            "sent": self.sent,
            "dropped": dict(sorted(self.dropped.items())),
        }


def padded(data: bytes) -> bytes:
    """Return the frame padded with zeros to the minimum length, which peers without a wire omit."""
    return data if len(data) >= MIN_BYTES else data.ljust(MIN_BYTES, b"\0")
