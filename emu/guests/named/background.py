"""Starts a command in a guest that outlives its client."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass

from emu.guests.channel.channel import GuestChannel
from emu.guests.errors import GuestError
from emu.host.printable import printable

_TIMEOUT = 60.0
_START = (
    'log=$(mktemp "/tmp/$1-XXXXXX.log") || exit; shift; '
    """setsid sh -c '"$@"; echo "ended with status $?"' sh "$@" < /dev/null > "$log" 2>&1 & """
    'echo "$! $log"'
)
"""The log's name begins with ``$1``; the words of the command follow.

A shell without job control leads no process group, so its child does not lead one either. setsid
makes the child the leader of a session, and its process number that of the group.
"""

_CHECK = r"""
is_program() { test -f "$1" && test -x "$1"; }
why=127:No\ such\ file\ or\ directory
case $1 in
*/*) is_program "$1" && exit; test -e "$1" && why=126:Permission\ denied ;;
*) set -f; IFS=:; for folder in $PATH; do is_program "${folder:-.}/$1" && exit; done ;;
esac
printf '%s: %s\n' "$1" "${why#*:}" >&2
exit "${why%%:*}"
"""
"""Not ``command -v``, which finds a shell's builtins as well."""


@dataclass(frozen=True)
class BackgroundJob:
    """A command that runs: its process group, and its log in the guest."""

    group: int
    log: str


def program_check(program: str) -> list[str]:
    """Return a command that ends with 0 if the guest can start ``program``: a path, or of its PATH.

    Otherwise the error goes to standard error, and the status is 127 (missing) or 126.
    """
    return ["/bin/sh", "-c", _CHECK, "sh", program]


def start_in_background(channel: GuestChannel, words: Sequence[str], title: str) -> BackgroundJob:
    """Start a command whose output and exit status go to a log in the guest.

    Return its process group and that log. ``title`` is the program's name, for the log's name. The
    command outlives the channel. Raises GuestError when the start fails.
    """
    name = "".join(letter for letter in posixpath.basename(title) if letter.isalnum()) or "exec"
    job = channel.start("sh", ["sh", "-c", _START, "sh", name[:64], *words], {})
    status = job.wait(_TIMEOUT)
    group, _, log = printable(bytes(job.stdout).decode(errors="replace")).strip().partition(" ")
    if status or not group.isdecimal() or not log:
        said = printable(bytes(job.stderr).decode(errors="replace")).strip()
        raise GuestError(said or f"the guest's shell ended with status {status}")
    return BackgroundJob(int(group), log)
