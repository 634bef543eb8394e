"""Assembles a server: functions behind sockets, from device specifications.

A process serves all functions of a guest, in a single thread. ``ready`` on standard output reports
that every socket is listening; SIGTERM and SIGINT end the process. At exit the log lists for each
function the driver's accesses that are not modelled.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from emu.device.adapter.board import Board
from emu.device.function.function import Function
from emu.device.function.tracer import Tracer
from emu.device.models.board_ports import MAX_PORTS
from emu.device.ports import Clock
from emu.device.state.hca import Hca
from emu.host.listening import OWNER_ONLY
from emu.server.control.server import ControlServer
from emu.server.net.eth.function_port import FunctionPort
from emu.server.net.eth.segments import Segments
from emu.server.net.eth.spec import NetSpec
from emu.server.net.eth.uplinks import Uplinks
from emu.server.net.fabric.protocol import Identity
from emu.server.net.ib.local import LocalFabric
from emu.server.net.ib.sockets import SocketFabric
from emu.server.net.ib.subnet.fabric import SubnetFabric
from emu.server.net.ib.subnet.topology import SubnetTopology
from emu.server.service.devicespec import DeviceSpec
from emu.server.service.endpoints import ServedDevice, function_number
from emu.server.service.fault_options import FaultOptions
from emu.server.service.fault_session import FaultSession
from emu.server.service.links import Cabling
from emu.server.service.methods import methods
from emu.server.service.pcap import Capture, PcapOptions
from emu.server.service.transports import make_transport
from emu.server.service.vf_placement import VfPlacement
from emu.server.vfio.base import Transport
from emu.server.vfio.kinds import DEFAULT_KIND
from emu.server.vfio.loop import Loop
from emu.server.vfio.vfio_user import VfioUserServer
from firmware_cmds import TABLE
from layouts.enums.caps import PortType

log = logging.getLogger(__name__)


class Server:
    """Functions, their transports and the loop that drives them."""

    def __init__(
        self,
        endpoints: Sequence[ServedDevice],
        transport: str = DEFAULT_KIND,
        tracer: Callable[[int, Clock], Tracer] | None = None,
        fabric: str | None = None,
        faults: FaultOptions | None = None,
        control: Path | None = None,
        socket_mode: int = OWNER_ONLY,
        nets: Sequence[NetSpec] = (),
        pcap: PcapOptions | None = None,
        subnet: SubnetTopology | None = None,
        guests: Sequence[str] = (),
    ) -> None:
        """Create all sockets, with virtual functions after all others (:func:`with_vfs`).

        ``tracer`` returns the tracer of a function by index and clock.

        ``fabric`` names a fabric shared with other processes, which assigns each LID or GUID that a
        specification does not set. Raises :class:`FabricError` when the fabric cannot be joined.
        ``control`` is the path of the control socket; raises OSError when it cannot be created.
        ``socket_mode`` is the mode of the other sockets; only the owner may use the control socket.
        ``nets`` are the uplinks of Ethernet segments; raises UserError or OSError for one that
        cannot be opened. ``pcap`` requests a capture; raises OSError for its file. ``subnet``
        replaces a ``fabric`` for InfiniBand functions; raises TopologyError when it has too few
        adapters. ``guests`` has the name of each function's guest, or is empty. Every error closes
        all sockets.
        """
        self.loop = Loop()
        self.functions: list[Function] = []
        self.names: dict[Function, str] = {}
        """Names for lines of the log; empty for a server of one function."""
        self._segments = Segments(self.loop)
        self._sockets: SocketFabric | None = None
        self._faults: FaultSession | None = None
        self._capture: Capture | None = None
        self._control: ControlServer | None = None
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            specs = [endpoint.spec for endpoint in endpoints]
            names = [
                *map(_function_name, range(len(specs)), endpoints, guests or [""] * len(specs))
            ]
            if fabric is not None:
                uplinks = Uplinks(self._segments)
                requested = [*map(_identity, specs)]
                self._sockets = SocketFabric(fabric, self.loop, requested, socket_mode, uplinks)
                specs = [*map(_with_identity, specs, self._sockets.join())]
            wire = self._sockets or LocalFabric(self.loop)
            self._subnet = SubnetFabric(self.loop, subnet, _guids(specs)) if subnet else None
            plugs = self._subnet.plugs if self._subnet else {}
            cables: list[FunctionPort | None] = []
            boards: dict[int, Board[Hca]] = {}
            transports: list[Transport] = []
            for index, (endpoint, spec) in enumerate(zip(endpoints, specs)):
                pf = None if endpoint.pf is None else self.functions[endpoint.pf]
                cables.append(self._cable(names[index], spec) if pf is None else None)
                served = make_transport(transport, endpoint.socket, socket_mode=socket_mode)
                function = Function(
                    spec.model,
                    spec.options,
                    TABLE,
                    served.memory,
                    served.interrupts,
                    self.loop,
                    plugs.get(spec.options.guid, wire),
                    tracer(index, self.loop) if tracer else None,
                    cables[-1],
                    board=_board(boards, spec),
                    pf=pf,
                )
                served.listen(function)
                self.loop.add_transport(served)
                self.functions.append(function)
                transports.append(served)
            _place_vfs(endpoints, transports, self.functions)
            self.names = dict(zip(self.functions, names)) if len(names) > 1 else {}
            self._segments.open(nets, socket_mode)
            wired = self._subnet or wire
            cabling = Cabling(self.loop, wired, cables)
            self._faults = FaultSession(self.functions, faults or FaultOptions(), cabling)
            if pcap is not None:
                self._capture = Capture(pcap, self.loop, self.functions, cables, wired, names)
                self._faults.on_fired = self._capture.fault
            if control is not None:
                answered = methods(
                    self.functions, self.loop, self._faults, self._segments, self._subnet, guests
                )
                self._control = ControlServer(control, self.loop, answered)
            undo.pop_all()

    def _cable(self, name: str, spec: DeviceSpec) -> FunctionPort | None:
        """Plug the function into the segment of its specification.

        Return the port, None for InfiniBand.
        """
        if spec.model.port_type is not PortType.ETH:
            return None
        return self._segments.plug(name, spec.segment)

    def run(self) -> None:
        """Write ``ready`` to standard output, and serve until SIGTERM, SIGINT or :meth:`Loop.stop`.

        Only in the main thread. Closes nothing: call :meth:`close` afterwards.
        """
        with self.loop.stopped_by(signal.SIGTERM, signal.SIGINT):
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            self.loop.run()

    def complaints(self) -> list[str]:
        """Return one text for each incomplete file: the record and the capture.

        Call after :meth:`close`. Empty when both are complete, or ended at a limit or by a pipe's
        reader.
        """
        parts = (self._faults, self._capture)
        return [part.complaint for part in parts if part is not None and part.complaint]

    def close(self) -> None:
        """Close all sockets, connections and files; remove the fault rules.

        Logs a warning for each use of a feature that is not modelled, and the tracers' summaries.
        Also closes a server whose construction failed half-way.
        """
        if self._control is not None:
            self._control.close()
        if self._faults is not None:
            self._faults.close()
        if self._capture is not None:
            self._capture.close()
        self._segments.close()
        if self._sockets is not None:
            self._sockets.close()
        self.loop.close()
        for function in self.functions:
            for line in function.unhandled.lines():
                log.warning(
                    "%s: the driver used an unmodelled feature: %s",
                    function.model.name,
                    line,
                )
            if function.tracer is not None:
                for line in function.tracer.summary():
                    log.info("%s: trace: %s", function.model.name, line)


def _function_name(index: int, endpoint: ServedDevice, guest: str) -> str:
    """Return the name of a function in captures and tables: its index, after its guest's name.

    A virtual function has its physical one's index and its own number instead, as in ``0.vf1``.
    """
    number = function_number(index, endpoint)
    return f"{guest} function {number}" if guest else f"function {number}"


def _place_vfs(
    endpoints: Sequence[ServedDevice],
    transports: Sequence[Transport],
    functions: Sequence[Function],
) -> None:
    """Let the transport of each physical function place its virtual functions."""
    for index, (served, function) in enumerate(zip(transports, functions)):
        vfs = [one for one, endpoint in zip(functions, endpoints) if endpoint.pf == index]
        if vfs:
            assert isinstance(served, VfioUserServer)
            name = _function_name(index, endpoints[index], "")
            served.observe(VfPlacement(name, served, function.config, vfs))


def _guids(specs: Sequence[DeviceSpec]) -> list[int]:
    """Return the GUIDs of the InfiniBand functions."""
    return [spec.options.guid for spec in specs if spec.model.port_type is PortType.IB]


def _board(boards: dict[int, Board[Hca]], spec: DeviceSpec) -> Board[Hca] | None:
    """Return the board of a function's port; None for a function that shares none.

    The first function of a board creates it in ``boards``, with its GUID.
    """
    if not spec.board:
        return None
    return boards.setdefault(spec.board, Board(spec.options.guid, MAX_PORTS))


def _identity(spec: DeviceSpec) -> Identity:
    """Return the LID and GUID that a specification requests on a fabric; 0 for one that is omitted.

    The fabric assigns an omitted one. Ethernet functions are marked, because they need no LID.
    """
    options, chosen = spec.options, spec.chosen
    return Identity(
        options.lid if "lid" in chosen else 0,
        options.guid if "guid" in chosen else 0,
        spec.model.port_type is PortType.ETH,
    )


def _with_identity(spec: DeviceSpec, given: Identity) -> DeviceSpec:
    """Return the specification with the LID and GUID that the fabric gave.

    A LID of 0 (Ethernet) leaves the specification's.
    """
    lid = given.lid or spec.options.lid
    return replace(spec, options=replace(spec.options, lid=lid, guid=given.guid))
