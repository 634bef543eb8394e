"""Starts a command in a guest that outlives who has started it."""

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

A shell without job control leads no group, so what it starts is no leader either, and setsid makes
that process the leader of a session: its number is the group's.
"""


@dataclass(frozen=True)
class BackgroundJob:
    """A command that runs: the process group it leads, and its log in the guest."""

    group: int
    log: str


def start_in_background(channel: GuestChannel, words: Sequence[str], title: str) -> BackgroundJob:
    """Start a command whose output and exit status go to a log in the guest.

    ``title`` is the program's name, for the log's. Raises GuestError when nothing is started.
    """
    name = "".join(letter for letter in posixpath.basename(title) if letter.isalnum()) or "exec"
    job = channel.start("sh", ["sh", "-c", _START, "sh", name[:64], *words], {})
    status = job.wait(_TIMEOUT)
    group, _, log = printable(bytes(job.stdout).decode(errors="replace")).strip().partition(" ")
    if status or not group.isdecimal() or not log:
        said = printable(bytes(job.stderr).decode(errors="replace")).strip()
        raise GuestError(said or f"the guest's shell ended with status {status}")
    return BackgroundJob(int(group), log)
