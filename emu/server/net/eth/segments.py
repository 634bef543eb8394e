"""All segments of a process, and the uplinks that leave them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from emu.host.listening import OWNER_ONLY
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.passt import Passt
from emu.server.net.eth.spec import NetSpec
from emu.server.net.eth.stream import StreamListener
from emu.server.net.eth.switch import SegmentSwitch
from emu.server.net.eth.tap import Tap
from emu.server.net.poller import Poller, Reactor


class Segments:
    """The segments by number; the first use of a number creates its segment."""

    def __init__(self, loop: Reactor) -> None:
        self._loop = loop
        self._switches: dict[int, SegmentSwitch] = {}
        self._poller: Poller | None = None
        """Set only with an uplink; without one the loop need not poll."""
        self._uplinks: list[Tap | StreamListener | Passt] = []
        self.on_new: Callable[[int, SegmentSwitch], None] | None = None
        """Callback for each new segment."""

    def segment(self, number: int) -> SegmentSwitch:
        """Return the segment with this number; create it and call ``on_new`` at the first use."""
        if number not in self._switches:
            switch = self._switches[number] = SegmentSwitch(self._loop, f"segment {number}")
            if self.on_new is not None:
                self.on_new(number, switch)
        return self._switches[number]

    def all(self) -> Sequence[tuple[int, SegmentSwitch]]:
        """Return the existing segments with their numbers."""
        return tuple(self._switches.items())

    def plug(self, name: str, number: int) -> FunctionPort:
        """Add a port for a function to a segment, created if needed, and return the port."""
        return FunctionPort(name, self.segment(number))

    def open(self, specs: Sequence[NetSpec], socket_mode: int = OWNER_ONLY) -> None:
        """Open the uplinks in order, each at its segment.

        Raises UserError or OSError for the first one that cannot be opened; the earlier ones stay
        open until :meth:`close`.
        """
        for spec in specs:
            switch = self.segment(spec.segment)
            if self._poller is None:
                self._poller = Poller(self._loop)
            poller = self._poller
            if spec.kind == "user":
                self._uplinks.append(Passt(switch, poller, self._loop, spec.passt_options))
            elif spec.kind == "stream":
                self._uplinks.append(StreamListener(Path(spec.what), switch, poller, socket_mode))
            else:
                self._uplinks.append(Tap(spec.what, switch, poller))

    def about(self) -> list[dict[str, object]]:
        """Return every segment with its ports, as values."""
        return [switch.about() for _, switch in sorted(self._switches.items())]

    def close(self) -> None:
        """Close the uplinks, end the processes behind them, and stop polling."""
        for uplink in self._uplinks:
            uplink.close("") if isinstance(uplink, Tap) else uplink.close()
        self._uplinks.clear()
        if self._poller is not None:
            self._poller.close()
            self._poller = None
