"""``--cwd`` and ``--no-share``: the directory in which a command runs in a guest."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from emu.cli.options.groups import COMMAND, GUEST, grouped_option
from emu.cli.shared.notice import notice
from emu.cli.shared.words import check_named
from emu.guests import GuestOptions
from emu.guests.named.placing import placed
from emu.guests.share import (
    NOT_EXECUTABLE,
    NOT_FOUND,
    SHARE,
    how_executable,
    how_found,
    not_executable,
    of_host,
    why_foreign,
)
from emu.host.printable import one_line
from emu.host.user_error import UserError

F = TypeVar("F", bound=Callable[..., Any])


class CommandFileError(UserError):
    """A command that names no program of the shared directory; ``status`` is a shell's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def place_options(function: F) -> F:
    """Add --cwd and --no-share to a command, which gets them as ``cwd`` and ``no_share``."""
    for option in (
        grouped_option(
            GUEST,
            "--no-share",
            is_flag=True,
            help="Share no directory. Default without --share: share the working directory.",
        ),
        grouped_option(
            COMMAND,
            "--cwd",
            metavar="DIR",
            help="Directory in which the command starts, relative to the shared directory.",
        ),
    ):
        function = option(function)
    return function


def with_share(choices: Mapping[str, Any], *, no_share: bool) -> dict[str, Any]:
    """Return the guest's choices; without --share the working directory is shared, read-only.

    With that default, a kernel that cannot mount a directory boots without one. With ``no_share``
    no directory is shared. Raises UsageError for --share with ``no_share``.
    """
    has_share = choices.get("share") is not None
    if has_share and no_share:
        raise click.UsageError("use --share or --no-share, not both")
    if has_share or no_share:
        return dict(choices)
    return {**choices, "share": (Path.cwd(), False), "share_optional": True}


def in_share(words: Sequence[str], cwd: str | None, options: GuestOptions) -> list[str]:
    """Return the command that runs ``words`` in ``cwd``, relative to the shared directory.

    Refuses, before the boot, a ``cwd`` that the shared directory does not have, and a relative path
    to no program of it. Raises CommandFileError: 127 for a missing file or directory, 126 for a
    file that is not executable, or of another processor than the guest's. Other directories and
    programs of the guest are not checked. Raises UsageError for a command without a name.
    """
    check_named(words)
    if options.share is None:
        return placed(words, cwd=cwd)
    where = os.path.join(SHARE, cwd) if cwd else SHARE
    directory = of_host(where, options.share)
    if directory is not None and not directory.is_dir():
        raise CommandFileError(f"--cwd: no directory {one_line(str(directory))}", NOT_FOUND)
    if words[0].startswith(("./", "../")):
        _check_program(words[0], of_host(os.path.join(where, words[0]), options.share))
    if why := why_foreign(words[0], options.share, options.arch, where):
        raise CommandFileError(one_line(why), NOT_EXECUTABLE)
    return placed(words, cwd=where)


def _check_program(word: str, path: Path | None) -> None:
    if path is None:
        return
    if not path.exists():
        raise CommandFileError(f"{one_line(word)}: no such file in {path.parent}", NOT_FOUND)
    if not os.access(path, os.X_OK):
        raise CommandFileError(not_executable(one_line(word), path), NOT_EXECUTABLE)


def tell_not_run(
    status: int, words: Sequence[str], share: Path | None, cwd: str | None = None
) -> None:
    """Print how a command can be run that ended with 127 or 126; do nothing for another status.

    ``share`` is the shared directory of the host, in whose ``cwd`` the command began.
    """
    if status == NOT_FOUND:
        tell_missing(words, share, cwd)
    elif status == NOT_EXECUTABLE and (how := how_executable(words[0], share, cwd)):
        notice(one_line(how))


def tell_missing(words: Sequence[str], share: Path | None, cwd: str | None = None) -> None:
    """Print how to share or name the command's file; a command line in one word needs ``sh -c``.

    ``cwd`` is that of :func:`in_share`. Do nothing for other commands without a slash, or a file
    that the host lacks.
    """
    path = Path(words[0])
    if len(words) == 1 and len(words[0].split()) > 1 and not path.is_file():
        text = f"{words[0]!r} is one word; for a command line: -- sh -c {shlex.quote(words[0])}"
        notice(one_line(text))
        return
    if how := how_found(words[0], share, cwd):
        notice(one_line(how))
