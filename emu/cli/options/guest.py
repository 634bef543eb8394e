"""Adds the declared options of a guest to commands, and turns values into GuestOptions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from emu.cli.options.declared import offered, refused
from emu.cli.shared.notice import notice
from emu.cli.shared.progress import display
from emu.cli.shared.words import moment
from emu.guests.architecture import NATIVE
from emu.guests.machine.launch import provide
from emu.guests.named.running import ARCHES, SHARES, TRACE
from emu.guests.options import GuestOptions, Option, OptionError, Use, option_named, options
from emu.guests.options.checks import check_options, check_uplinks_used
from emu.guests.requested import check_requested, requested
from emu.host import shipped
from emu.host.printable import one_line
from emu.host.user_error import WRONG_USE, UserError
from emu.server.net.eth import passt
from emu.server.net.eth.spec import parse as parse_net

F = TypeVar("F", bound=Callable[..., Any])

OF_RECORD = (Use.REPLAY, Use.MINIMIZE)
"""Uses that start a guest like that of a record."""
AS_RECORDED = "as in RECORD"
"""The default of such a use's options, as help shows it."""


def is_restored(one: Option) -> bool:
    """Return whether a record has the option; the head of each has the devices."""
    return one.is_recorded or one.name == "devices"


def guest_options(use: Use) -> Callable[[F], F]:
    """Return a decorator that adds the options to a command, as keywords for :func:`to_options`.

    Options that ``use`` refuses are hidden and fail with the reason.
    """

    def decorate(function: F) -> F:
        for one in reversed(options()):
            why = one.why_not(use)
            default = AS_RECORDED if use in OF_RECORD and is_restored(one) else ""
            function = (refused(one, why) if why else offered(one, default=default))(function)
        no_device = click.option(
            "--no-device", is_flag=True, hidden=True, help="Boot without any function."
        )
        return no_device(function)

    return decorate


def to_options(**choices: Any) -> GuestOptions:
    """Return the choices as :class:`GuestOptions`, checked before any process starts.

    A kernel of the archive is downloaded, and the start of a fault plan is printed. Raises
    UsageError for an option that is invalid by itself or with the others. Raises UserError for a
    fault plan with mistakes, and if --net user needs passt and passt is missing.
    """
    try:
        made = _requested(choices)
        if choices.get("share_optional") and made.share is None:
            notice("the working directory is not shared: the kernel has no 9P file system")
        check_uplinks_used(made.nets, made.devices)
        return made
    except OptionError as error:
        if error.name not in (one.name for one in options()):
            raise
        mistakes = [_in_words(one) for one in (error, *error.others)]
        raise click.UsageError("\n".join(mistakes)) from None


def _in_words(error: OptionError) -> str:
    """Return the text of an option's mistake, as click has it for a single value."""
    option = option_named(error.name)
    why = str(error).removeprefix(f"{option.word}: ")
    return "\n".join(f"Invalid value for --{option.flag}: {one}" for one in why.split("\n"))


def _requested(choices: Mapping[str, Any]) -> GuestOptions:
    """Check the choices, print when the faults begin, and return them as :class:`GuestOptions`.

    A kernel other than the suite's is unpacked or downloaded, with progress shown.
    """
    given = given_values(choices)
    check_options(given)
    check_requested(given)
    if choices.get("faults") is not None:
        tell_begin(choices["faults"], choices.get("faults_when"))
    if any(parse_net(net).kind == "user" for net in choices.get("nets") or ()):
        passt.program()
    if not choices.get("kernel"):
        return requested(given)
    with display() as (progress, on_wait):
        return requested(given, progress=progress, on_wait=on_wait)


def tell_begin(path: Path, when: str | None) -> None:
    """Check a fault plan and print when it begins; ``when`` overrides the plan's own time.

    Raises UserError, with status 2, for a plan with mistakes. The plan is not loaded.
    """
    # Importing the plan reader takes 100 ms, and few runs have a plan.
    from emu.server.service.plan_files import read_plan

    try:
        plan = read_plan(path)  # reports mistakes also if ``when`` is given
    except UserError as error:
        error.status = WRONG_USE
        raise
    begins = moment(when or plan.begins)
    notice(f"faults begin {begins}: {one_line(shipped.shown(path))}")


def given_values(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that the command line gives, by the options' names; leave out absent ones.

    ``no_device`` becomes empty ``devices``; a share becomes its directory and ``share_writable``.
    """
    given = {name: value for name, value in choices.items() if value is not None and value != ()}
    if given.pop("no_device", False):
        given["devices"] = ()
    if isinstance(share := given.get("share"), tuple):  # of a command line, not of a record
        given["share"], given["share_writable"] = share
    return given


def prepare(*options: GuestOptions) -> None:
    """Build images and fetch QEMU for the guests if the cache lacks them; show the progress.

    Raises LabError.
    """
    with display() as (progress, on_wait):
        wanted = ((one.suite, one.packages, one.python_packages, one.arch) for one in options)
        provide(wanted, progress, on_wait)


def described(options: GuestOptions, name: str) -> dict[str, Any]:
    """Return what `mlx5emu ps` shows of the guest ``name``, its shared directory and its trace."""
    arch = [options.arch] * (options.arch != NATIVE.name)
    suite = " ".join((options.suite, *arch))
    places = {**places_of({name: options}), **trace_of(options.trace)}
    return {"suite": suite, "devices": options.devices, **places}


def trace_of(path: Path | None) -> dict[str, str]:
    """Return what `dmesg` needs of guests whose server writes a trace to ``path``."""
    return {TRACE: os.path.realpath(path)} if path is not None else {}


def places_of(guests: Mapping[str, GuestOptions]) -> dict[str, dict[str, str]]:
    """Return what `exec` needs of guests, by their names: shared directories, architectures."""
    shares = {name: str(one.share) for name, one in guests.items() if one.share is not None}
    arches = {name: one.arch for name, one in guests.items() if one.arch != NATIVE.name}
    return {SHARES: shares, ARCHES: arches}
