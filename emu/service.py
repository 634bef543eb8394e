"""Puts a server together: device specifications in, functions behind sockets out.

One process serves all functions of a guest, in one thread. ``ready`` on standard output says that
every socket is listening; SIGTERM and SIGINT end it. On the way out, each function says what its
driver touched and nobody modelled.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from emu.devicespec import DeviceSpec
from emu.fabric.local import LocalFabric
from emu.function import Function
from emu.ports import Clock
from emu.trace import Tracer
from emu.transport.base import Transport
from emu.transport.libvfio_user import LibvfioUserServer
from emu.transport.loop import Loop
from emu.transport.vfio_user import VfioUserServer
from firmware_cmds import TABLE

log = logging.getLogger(__name__)

TRANSPORTS: Mapping[str, Callable[[Path], Transport]] = {
    "vfio-user": VfioUserServer,
    "libvfio-user": LibvfioUserServer,
}
DEFAULT_TRANSPORT = "vfio-user"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A device, and the socket that offers it."""

    socket: Path
    spec: DeviceSpec


class Server:
    """Functions, their transports and the loop that drives them."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        transport: str = DEFAULT_TRANSPORT,
        tracer: Callable[[int, Clock], Tracer] | None = None,
    ) -> None:
        """``tracer`` makes the tracer of the function with a given index, on its clock."""
        self.loop = Loop()
        self.functions: list[Function] = []
        fabric = LocalFabric(self.loop)
        for index, endpoint in enumerate(endpoints):
            way = TRANSPORTS[transport](endpoint.socket)
            function = Function(
                endpoint.spec.model,
                endpoint.spec.options,
                TABLE,
                way.memory,
                way.interrupts,
                self.loop,
                fabric,
                tracer(index, self.loop) if tracer else None,
            )
            way.listen(function)
            self.loop.add_transport(way)
            self.functions.append(function)

    def run(self) -> None:
        """Serve until a signal ends it."""
        with self.loop.stopped_by(signal.SIGTERM, signal.SIGINT):
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            self.loop.run()

    def close(self) -> None:
        """Close the sockets and say what was missing."""
        self.loop.close()
        for function in self.functions:
            for line in function.missing.lines():
                log.warning("%s: touched but not modelled: %s", function.model.name, line)
