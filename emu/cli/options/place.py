"""``--cwd`` and ``--no-share``: where a command of the host's working directory runs in a guest."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from emu.guests import GuestOptions
from emu.guests.named.placing import placed
from emu.host.printable import one_line

F = TypeVar("F", bound=Callable[..., Any])

SHARE = "/mnt/share"
NOT_FOUND = 127
"""Status of a command that the guest does not have, as of a shell."""


def place_options(function: F) -> F:
    """Add --cwd and --no-share; the command gets them as ``cwd`` and ``no_share``."""
    for option in (
        click.option(
            "--no-share",
            is_flag=True,
            help="Share no directory; without --share the guest sees the working directory.",
        ),
        click.option(
            "--cwd",
            metavar="DIR",
            help="Run COMMAND in DIR of the guest.  [default: the shared directory]",
        ),
    ):
        function = option(function)
    return function


def with_share(choices: Mapping[str, Any], *, no_share: bool) -> dict[str, Any]:
    """Return the guest's choices; without --share the working directory is shared, read-only.

    A kernel that cannot mount a directory then boots without. Raises UsageError for --share with
    ``no_share``.
    """
    has_share = choices.get("share") is not None
    if has_share and no_share:
        raise click.UsageError("--share or --no-share, not both")
    if has_share or no_share:
        return dict(choices)
    return {**choices, "share": (Path.cwd(), False), "share_optional": True}


def in_share(words: Sequence[str], cwd: str | None, options: GuestOptions) -> list[str]:
    """Return the command that runs ``words`` in ``cwd``, by default in the shared directory."""
    return placed(words, cwd=cwd or (SHARE if options.share is not None else None))


def tell_missing(words: Sequence[str], options: GuestOptions) -> None:
    """Say how to share a command's file that is on the host, after the guest has not found it."""
    path = Path(words[0])
    if os.sep not in words[0] or not path.is_file():
        return
    resolved = path.resolve()
    if options.share is not None and resolved.is_relative_to(options.share.resolve()):
        inside = Path(SHARE) / resolved.relative_to(options.share.resolve())
        how = f"the guest sees it as {inside}"
        if not os.access(resolved, os.X_OK):
            how += "; it is not executable"
    else:
        how = f"share its directory: --share {resolved.parent}"
    click.echo(
        f"mlx5emu: {one_line(words[0])} was not found in the guest: {one_line(how)}", err=True
    )
