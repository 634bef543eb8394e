"""Carries out one run in a guest: boots it, runs the command, reads the kernel's log."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from emu.device.faults.plan import LOADED, LOADING
from emu.guests import CommandTimeoutError, Guest, GuestError, GuestOptions, GuestPanicError
from emu.guests.requested import requested
from emu.guests.share import (
    NOT_EXECUTABLE,
    NOT_FOUND,
    SHARE,
    how_executable,
    how_found,
    not_run_by_shell,
    why_foreign,
)
from emu.guests.workdir import work_directory
from emu.instruments.campaign.description import MAX_RECORD, Description, PeerPart, RunResult
from emu.instruments.campaign.observer import Observer
from emu.instruments.campaign.peer import ADDRESS, PEER_ADDRESS, PeerGuest, environment, fabric_of
from emu.instruments.campaign.traced import fault_ns, since_fault
from emu.instruments.campaign.trial import RunTrial, result_of
from emu.instruments.outcome import (
    findings,
    growing_kinds,
    growth,
    of_error,
    settled,
    still_blocked,
)
from emu.instruments.outcome.objects import MIN_REPETITIONS
from emu.server.control import Client

NAME = "emu.instruments.campaign.guest_run:carry_out"
"""The name of :func:`carry_out` for :func:`emu.instruments.campaign.worker.find_runner`."""

_READ_SECONDS = 60.0
_TRACE_MIB = 64
"""Limit of an observed run's trace, in MiB; later events are lost."""
_MAX_KEPT = 8 << 20
_SLABS = """
for cache in /sys/kernel/slab/*/shrink; do echo 1 > $cache; done 2> /dev/null; cat /proc/slabinfo
"""
_BLOCKED = "sleep 1; echo w > /proc/sysrq-trigger; dmesg --raw"
"""Log the stacks of blocked tasks (SysRq-w)."""
# kmemleak reports an object after two scans.
_LEAKS = """
leaks=/sys/kernel/debug/kmemleak
[ ! -e $leaks ] || { echo scan > $leaks; sleep 5; echo scan > $leaks; cat $leaks; }
"""


def carry_out(run: Description) -> RunResult:
    """Boot a guest, run the command, stop the guest and return the result.

    A guest that fails while booting or later is part of the result. Raises LabError only for a
    failed build or invalid options.
    """
    trial = RunTrial()
    began = time.monotonic()
    with work_directory() as directory:
        record, trace = directory / "record", directory / "trace.json"
        guest = Guest(_options(run, record, trace))
        peer = None if run.peer is None else PeerGuest(_peer_options(run, run.peer, directory))
        try:
            _boot(guest, peer)
            trial.release = guest.kernel_release
            if run.is_observed:
                trial.observer = Observer(guest)
            if run.plan and run.when == LOADED:
                trial.loaded_ns = time.monotonic_ns()
                with Client(guest.control_socket) as control:
                    control.load_plan(run.plan)
            if peer is not None and run.peer is not None:
                peer.start(run.peer.command)
            _work(guest, run, trial)
        except GuestError as error:
            _failed(guest, error, trial)
            _look_at_peer(peer, trial)
        else:
            _look_at_peer(peer, trial)
        finally:
            try:
                if peer is not None:
                    peer.stop()
            finally:
                guest.stop()
        text = _bounded(record)
        result = result_of(run, trial, text)
        if run.is_observed and result.has_struck:
            cut = since_fault(trace, fault_ns(text, trial.loaded_ns))
            result = result.model_copy(update={"trace": cut})
        if peer is not None:
            result = result.model_copy(update={"peer_output": peer.output()})
    took = round(time.monotonic() - began, 3)
    return result.model_copy(update={"seconds": took, "ended_at": round(time.time())})


def _look_at_peer(peer: PeerGuest | None, trial: RunTrial) -> None:
    """Add the findings of a second guest to the run, unless a guest has failed to boot."""
    if peer is not None and trial.release:
        trial.ends += peer.findings()


def _boot(guest: Guest, peer: PeerGuest | None) -> None:
    """Boot the guest; with a second one boot both at once, and connect them. Raises GuestError."""
    if peer is None:
        guest.start()
        return
    peer.begin()
    guest.start()
    peer.connect(guest)


def _said(run: Description, directory: Path) -> dict[str, Any]:
    """Return the options that all guests of a run have, with the fabric that joins two."""
    said = run.guest.given()
    if "share" not in said and run.directory is not None and Path(run.directory).is_dir():
        said |= {"share": Path(run.directory), "share_optional": True}
    if run.peer is not None:
        said["fabric"] = fabric_of(directory)
    return said


def _peer_options(run: Description, peer: PeerPart, directory: Path) -> GuestOptions:
    """Return the options of a run's second guest."""
    return requested(_said(run, directory) | {"devices": peer.devices})


def _options(run: Description, record: Path, trace: Path) -> GuestOptions:
    """Return the guest's options; write a plan that starts with the boot beside the record."""
    said = _said(run, record.parent)
    if run.plan and run.when == LOADING:
        said["faults"] = record.with_name("plan.toml")
        said["faults"].write_text(run.plan)
    if run.plan:
        said["record"] = record
    if run.is_observed:
        said |= {"trace": trace, "trace_limit": _TRACE_MIB}
    return requested(said)


def _work(guest: Guest, run: Description, trial: RunTrial) -> None:
    """Run the command ``run.repeat`` + 1 times, then record log, leaks and growth in ``trial``.

    A timeout of the command is recorded, and tasks that are blocked for a second before the command
    is killed. Raises GuestError for a guest that is lost.
    """
    try:
        trial.status = _once(guest, run, trial)
        if run.repeat and trial.status == 0:
            before, counts = _read(guest, _SLABS), [_census(guest)]
            for _ in range(run.repeat):
                trial.status = trial.status or _once(guest, run, trial)
                counts.append(_census(guest))
            # The first run only filled the driver's caches.
            trial.ends += (
                growing_kinds(counts) if run.repeat >= MIN_REPETITIONS and not trial.status else ()
            )
            trial.ends += growth(before, _read(guest, _SLABS), run.repeat)
            trial.ends += findings(_read(guest, _LEAKS))
    except CommandTimeoutError as error:
        trial.why = str(error)
        trial.ends.append(of_error(error))
    trial.log = _read(guest, "dmesg --raw")


def _census(guest: Guest) -> dict[str, int]:
    with Client(guest.control_socket) as control:
        return settled(control)


def _once(guest: Guest, run: Description, trial: RunTrial) -> int:
    """Run the command once; return its status. CommandTimeoutError after ``run.timeout``."""
    environ = {"SEED": str(run.seed)}
    share = guest.options.share
    cwd = None if share is None else SHARE
    observer = trial.observer

    def note_timeout() -> None:
        if observer is not None:
            observer.note_timeout()
        _note_blocked(guest, trial)

    if run.peer is not None:
        environ |= environment(ADDRESS, PEER_ADDRESS)
    if observer is not None:
        environ |= observer.begin()
    job = guest.popen(["sh", "-c", run.command], environ=environ, cwd=cwd, sink=trial.take)
    status = guest.wait(job, run.timeout, note_timeout)
    if observer is not None:
        observer.note_end()
    if status in (NOT_EXECUTABLE, NOT_FOUND):
        trial.why = _how_found(run, share, trial.output.decode(errors="replace"))
    first = run.command.partition(" ")[0]
    if status and (why := why_foreign(first, share, guest.options.arch)):
        trial.why = why
    return status


def _note_blocked(guest: Guest, trial: RunTrial) -> None:
    """Record the tasks that are blocked for a second; none if the guest does not answer.

    The command still runs: a killed command's stack would show its end.
    """
    trial.blocked = ()
    with contextlib.suppress(GuestError):
        first = _read(guest, _BLOCKED)
        trial.blocked = still_blocked(first, _read(guest, _BLOCKED))


def _how_found(run: Description, share: Path | None, output: str) -> str:
    """Return how the guest finds the file that the shell's last message names, or "".

    The file's name is relative to the campaign's directory.
    """
    named = not_run_by_shell(output)
    if named is None:
        return ""
    word, status = named
    if status == NOT_EXECUTABLE:
        return how_executable(word, share)
    if share is None and run.directory is not None:
        return f"the campaign's directory {run.directory} does not exist on this host"
    path = os.path.join(run.directory or "", word) if os.sep in word else word
    return how_found(path, share, option='share = "{}"')


def _read(guest: Guest, command: str) -> str:
    return guest.run(command, timeout=_READ_SECONDS).stdout[-_MAX_KEPT:]


def _failed(guest: Guest, error: GuestError, trial: RunTrial) -> None:
    """Record a lost guest in ``trial``: reason, panic, finding, and its console as log.

    After a command's timeout no log is recorded.
    """
    trial.why = str(error)
    trial.has_panicked = isinstance(error, GuestPanicError)
    trial.log = "" if isinstance(error, CommandTimeoutError) else _console(guest, error)
    trial.ends.append(of_error(error))


def _console(guest: Guest, error: GuestError) -> str:
    try:
        return guest.console
    except GuestError:  # already stopped: boot failed
        return error.console


def _bounded(record: Path) -> str:
    """Return a record's complete lines up to :data:`MAX_RECORD` characters; empty if absent."""
    try:
        with record.open(encoding="utf-8", errors="replace") as file:
            text = file.read(MAX_RECORD)
    except FileNotFoundError:
        return ""
    return text[: text.rfind("\n") + 1]
