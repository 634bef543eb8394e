"""A port of a segment: what is plugged in there, and what has passed or been dropped."""

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
    """What a port is plugged into."""

    def forward(self, source: SegmentPort, frame: Frame) -> None:
        """A frame that came in at a port."""

    def spare(self) -> int:
        """How many frames a peer that can wait should send for now."""


class SegmentPort:
    """One port; the subclasses know what is plugged in."""

    is_uplink = False
    """Whether the segment continues behind the port, perhaps in a loop back to another one."""
    is_fabric = False
    """Whether the port leads to segments of other processes of the fabric."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.received = 0
        """Frames that have come into the segment here; a super-frame counts as one."""
        self.sent = 0
        """Frames that have left the segment here."""
        self.dropped: Counter[str] = Counter()
        """Frames that were lost here on the way in or out, by reason."""
        self.guard = UplinkGuard() if self.is_uplink else None

    @property
    def is_up(self) -> bool:
        """Whether frames can leave the segment here."""
        return True

    def spare(self, now_ns: int) -> int:
        """How many frames should leave here for now; more may be lost."""
        return MANY

    @property
    def is_pausing(self) -> bool:
        """Whether senders that can wait should wait, as behind a port that sends pause frames."""
        return False

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when frames can be let out again without loss."""
        callback()

    def deliver(self, frame: Frame) -> None:
        """Let a frame out of the segment here; it may be lost, which is counted. Never raises."""
        raise NotImplementedError

    @property
    def takes_trains(self) -> bool:
        """Whether trains of RoCE packets can leave here for now."""
        return False

    def deliver_train(self, pieces: Sequence[Buffer], train: Train | None = None) -> bool:
        """Let a train out, in pieces that are not kept; False when senders had better wait.

        ``train`` is what ``parse_train`` has found in it, if it was asked.
        """
        raise NotImplementedError

    def about(self) -> dict[str, object]:
        """The port's counts, as values."""
        return {
            "port": self.name,
            "up": self.is_up,
            "received": self.received,
            "sent": self.sent,
            "dropped": dict(sorted(self.dropped.items())),
        }


def padded(data: bytes) -> bytes:
    """The frame with zeros up to the shortest length, which peers without a wire leave out."""
    return data if len(data) >= MIN_BYTES else data.ljust(MIN_BYTES, b"\0")
