"""The options of a guest as users write them: on a command line, in a file, in a marker."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from emu.guests.architecture import ARCHITECTURES, NATIVE, Architecture
from emu.guests.archive.bootstrap import Progress
from emu.guests.errors import LabError
from emu.guests.kernel import kconfig
from emu.guests.kernel.binaries import is_uml
from emu.guests.kernel.choice import check, choose
from emu.guests.options import GuestOptions, Option, OptionError, option_named, options
from emu.guests.options.checks import check_types
from emu.guests.options.guest import unknown_option
from emu.guests.options.kinds import Directory
from emu.host.userfiles import why_not_made

_HERE = Path()


def requested(
    said: Mapping[str, Any],
    base: Path = _HERE,
    progress: Progress | None = None,
    on_wait: Callable[[], None] | None = None,
) -> GuestOptions:
    """Return the guest's options from a user's values, by option name; None is an absent value.

    Paths are relative to ``base``. Names that are not options of users are fields, kept unchanged.
    The kernel is searched last, and fetched when it is the archive's, after all other checks.
    Directories such as ``out`` are created after the checks. A ``share_optional`` that the kernel
    cannot mount is left out. Raises :class:`OptionError` for an
    invalid option, and :class:`LabError`.
    """
    fields, words = _checked(said, base)
    for one in _made(fields):
        try:
            fields[one.name].mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = f"{one.word}: {error.filename} cannot be made: {error.strerror}"
            raise OptionError(one.name, why) from None
    if words:
        suite = fields.get("suite", GuestOptions.suite)
        chosen = choose(words, suite, progress, on_wait, _arch(fields))
        if is_uml(chosen.kernel):
            _check_vfs(fields.get("devices", ()))
        fields |= {"kernel": chosen.kernel, "modules": fields.get("modules") or chosen.modules}
        fields = _with_mountable_share(fields)
    return GuestOptions(**fields)


def _with_mountable_share(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields, without an optional share that the kernel's configuration excludes.

    Raises OptionError for another share, and for ``out``. Return the fields unchanged for a kernel
    whose configuration is in no file, and for User-Mode Linux, which has a file system of its own.
    """
    is_optional = fields.get("share_optional")
    required = [] if is_optional or fields.get("share") is None else ["share"]
    required += [] if fields.get("out") is None else ["out"]
    if not (required or is_optional) or is_uml(fields["kernel"]):
        return fields
    config = kconfig.known(fields["kernel"], fields["modules"], None)
    why = "" if config is None else kconfig.why_not_shared(config)
    if not why:
        return fields
    if required:
        raise OptionError(required[0], f"{required[0]}: {why}")
    return {**fields, "share": None, "share_optional": False}


def check_requested(said: Mapping[str, Any], base: Path = _HERE) -> None:
    """Raise the errors that :func:`requested` would raise; fetch and create nothing.

    An archive's kernel is checked by its name alone.
    """
    _checked(said, base)


def _checked(said: Mapping[str, Any], base: Path) -> tuple[dict[str, Any], Sequence[str]]:
    """Return the checked fields of a user's values, and the checked words for the kernel.

    The fields lack ``kernel``. Creates nothing. Raises OptionError, also for a name that is no
    field of :class:`GuestOptions`, and for a directory that cannot be made.
    """
    fields = {name: value for name, value in said.items() if value is not None}
    known = [one.name for one in dataclasses.fields(GuestOptions)]
    for name in fields:
        if name not in known:
            raise unknown_option(name, known)
    check_types(fields)
    for one in options():
        if one.name in fields:
            fields |= one.kind.fields(one.name, fields[one.name], base)
    for one in _made(fields):
        if why := why_not_made(fields[one.name]):
            raise OptionError(one.name, f"{one.word}: {why}")
    if "share_writable" in said:
        fields["share_writable"] = said["share_writable"]
    words = fields.pop("kernel", ())
    if words:
        try:
            check(words, _arch(fields))
        except LabError as error:
            raise OptionError("kernel", f"kernel: {error}") from None
    later = {one.name for one in _made(fields)} | ({"modules"} if words else set())
    GuestOptions(**{name: value for name, value in fields.items() if name not in later})
    if words and (modules := fields.get("modules")) is not None:
        why = option_named("modules").kind.wrong(modules)
        if why:
            raise OptionError("modules", f"modules: {why}")
    return fields, words


def _check_vfs(devices: Sequence[str]) -> None:
    """Raise OptionError for virtual functions, which User-Mode Linux does not support."""
    from emu.server.service.devicespec import parse_all

    if any(spec.vfs for spec in parse_all(devices, fabric=True)):
        raise OptionError("devices", "devices: vfs: not supported with User-Mode Linux")


def _arch(fields: Mapping[str, Any]) -> Architecture:
    """Return the architecture of a guest; the host's for a name that there is not."""
    return ARCHITECTURES.get(fields.get("arch", NATIVE.name), NATIVE)


def _made(fields: Mapping[str, Any]) -> list[Option]:
    """Return the options whose directories are created when absent, as far as they are given."""
    return [
        one
        for one in options()
        if one.name in fields and isinstance(one.kind, Directory) and one.kind.is_made
    ]
