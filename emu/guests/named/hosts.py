"""Starts the guests of a topology: one server for all functions, then a few guests at a time."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from emu.guests import cache
from emu.guests.errors import GuestError, ServerError
from emu.guests.guest.guest import Guest
from emu.guests.guest.server import DeviceServer
from emu.guests.guest.vm import Served
from emu.guests.named.topology import LabNode, LabTopology
from emu.guests.share import SHARE
from emu.guests.workdir import work_directory

logger = logging.getLogger(__name__)


@dataclass
class _Hosts:
    """The guests that have been started; all lose their functions when the server ends."""

    guests: dict[str, Guest]
    failure: ServerError | None = None

    def lose_server(self, error: ServerError) -> None:
        self.failure = error
        for guest in list(self.guests.values()):
            guest.lose_server(error)


def start(
    topology: LabTopology,
    stack: contextlib.ExitStack,
    complain: Callable[[GuestError], None] | None = None,
) -> Mapping[str, Guest]:
    """Boot every guest and run its commands; push the cleanup on ``stack``; return them by name.

    No more guests boot at once than the host has processors. A fault plan that waits for the driver
    starts when all are up. Raises :class:`LabError`, also for a failed command; with ``complain``,
    that is called with the error instead, and the guest stays up.
    """
    hosts = _Hosts({})
    sockets: list[Path] = []
    control: Path | None = None
    log: Path | None = None
    server: DeviceServer | None = None
    if topology.devices:
        work = stack.enter_context(work_directory())
        log = cache.new_run_dir() / "server.log"
        server = DeviceServer(
            topology.devices,
            directory=work,
            log=log,
            trace=topology.trace,
            faults=topology.faults,
            faults_when=topology.faults_when,
            record=topology.record,
            options=topology.server_options,
            guests=topology.guests,
            on_end=hosts.lose_server,
        )
        stack.callback(server.stop)
        server.start()
        sockets, control = list(server.sockets), server.control
    booting: list[tuple[LabNode, Guest]] = []
    for node in topology.nodes:
        if len(booting) >= len(os.sched_getaffinity(0)):
            _await(*booting.pop(0), complain)
        count = len(node.options.devices)
        served = Served(tuple(sockets[:count]), control, log)
        del sockets[:count]
        options = dataclasses.replace(node.options, stays=True, hostname=node.name)
        guest = Guest(options, served=served)
        hosts.guests[node.name] = guest
        stack.callback(guest.stop)
        guest.begin()
        booting.append((node, guest))
    for node, guest in booting:
        _await(node, guest, complain)
    if hosts.failure is not None:
        raise hosts.failure
    if server is not None:
        server.arm()
    return hosts.guests


def _await(node: LabNode, guest: Guest, complain: Callable[[GuestError], None] | None) -> None:
    """Wait for a guest, then run its commands, in the shared directory if any, until one fails.

    A failed command is passed to ``complain``, or raised without it; a failed boot is always
    raised. The error names file, line and guest.
    """
    try:
        guest.wait_ready()
    except GuestError as error:
        error.args = (_located(node.place, node, error),)
        raise
    try:
        cwd = None if guest.options.share is None else SHARE
        for command in node.commands:
            guest.run(command, cwd=cwd, timeout=guest.options.boot_timeout).check()
    except GuestError as error:
        error.args = (_located(node.commands_place, node, error),)
        if complain is None:
            raise
        complain(error)
    logger.info("%s is up", node.name)


def _located(place: str, node: LabNode, error: GuestError) -> str:
    """Return the error of a guest, with the place of the file that asks for it."""
    where = f"{place}: " if place else ""
    return f"{where}guest {node.name}: {error}"
