"""Observers for every function and network that a test makes: a tracer and a capture."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from emu.device.function.function import Function
from emu.device.rounds.portions import finish
from emu.device.trace.event import TraceEvent
from emu.device.trace.recorder import Recorder
from emu.device.trace.text import TextForm
from emu.driver.world.clock import HandClock
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.ib.local import LocalFabric
from emu.server.net.pcap.capture import EthernetInterface, SubnetWatcher
from emu.server.net.pcap.faults import CaptureInterface
from emu.server.net.pcap.file import PcapFile
from emu.server.service import views

_TRACER = 7
"""Place of the tracer among the arguments of ``Function``, without the function itself."""


_MAX_FUNCTIONS = 4
"""How many of the functions that were made last are looked at in the end."""


def look(function: Function) -> None:
    """Read a function by all views of the control socket, as in whatever state it is."""
    json.dumps(views.status(function, 0))
    shown = json.loads(b"".join(views.objects(function, None, 1000)))
    unread = [item for table in shown.values() for item in table["items"] if "error" in item]
    assert not unread
    finish(views.census([function]))


class FormedAndForgotten:
    """A sink that makes both forms of each event, as a trace in a file has one, and drops them."""

    is_open = True

    def __init__(self) -> None:
        self._text = TextForm()
        self.count = 0

    def write(self, event: TraceEvent) -> None:
        """Take an event."""
        self.count += 1
        assert "\n" not in event.to_json()
        assert self._text(event).isprintable()


class _EveryPort(dict[int, CaptureInterface]):
    """The interface of any LID: all are one."""

    def __init__(self, interface: CaptureInterface) -> None:
        super().__init__()
        self._interface = interface

    def get(self, _lid: int, _default: Any = None) -> Any:
        """The interface."""
        return self._interface


class Observers:
    """Attaches observers to what is made while it is installed by a monkeypatch."""

    def __init__(self) -> None:
        self.sink = FormedAndForgotten()
        self._file = PcapFile(Path(os.devnull), HandClock(), "mlx5emu")
        self._functions: deque[Function] = deque(maxlen=_MAX_FUNCTIONS)

    def install(self, monkeypatch: Any) -> None:
        """Trace every function and capture every InfiniBand wire and segment that is made."""
        monkeypatch.setattr(Function, "__init__", self._traced(Function.__init__))
        monkeypatch.setattr(LocalFabric, "__init__", self._watched(LocalFabric.__init__))
        monkeypatch.setattr(FunctionPort, "__init__", self._plugged(FunctionPort.__init__))

    def close(self) -> None:
        """Close the capture, and look at the functions as they are left."""
        self._file.close()
        for function in self._functions:
            look(function)

    def _traced(self, make: Callable[..., None]) -> Callable[..., None]:
        def made(function: Function, *given: Any, **named: Any) -> None:
            if len(given) <= _TRACER and named.get("tracer") is None:
                clock = named.get("clock", given[5] if len(given) > 5 else None)
                named["tracer"] = Recorder(self.sink, clock)
            make(function, *given, **named)
            self._functions.append(function)

        return made

    def _watched(self, make: Callable[..., None]) -> Callable[..., None]:
        def made(fabric: LocalFabric, *given: Any) -> None:
            make(fabric, *given)
            watcher = SubnetWatcher(wants_messages=False)
            watcher._interfaces = _EveryPort(CaptureInterface(self._file, 0))
            fabric.watcher = watcher

        return made

    def _plugged(self, make: Callable[..., None]) -> Callable[..., None]:
        def made(port: FunctionPort, *given: Any) -> None:
            make(port, *given)
            port.watcher = EthernetInterface(self._file, 0)

        return made
