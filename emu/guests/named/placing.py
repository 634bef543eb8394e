"""Sets the directory, environment and user of a guest's command, by words before the command's."""

from __future__ import annotations

from collections.abc import Sequence

from emu.guests.share import SHARE

_AS_USER = (
    'user=$1; shift; group=$(id -g -- "$user") || exit 125; '
    'exec setpriv --reuid "$user" --regid "$group" --init-groups --reset-env -- "$@"'
)


_IN_SHARE = f'cd {SHARE} 2> /dev/null; exec "$@"'


def in_share_if_mounted(words: Sequence[str]) -> list[str]:
    """Return the command ``words``, run in the shared directory if the guest has mounted it."""
    return ["sh", "-c", _IN_SHARE, "sh", *words]


def placed(
    words: Sequence[str],
    *,
    cwd: str | None = None,
    settings: Sequence[str] = (),
    user: str | None = None,
) -> list[str]:
    """Return the command ``words``, run in ``cwd`` as ``user``; ``settings`` are ``NAME=VALUE``.

    Without options the words are unchanged. Status 125, as of coreutils' env, means that the
    directory or the user does not exist. The user has the environment of a login: HOME, SHELL,
    USER, LOGNAME and PATH.
    """
    argv = list(words)
    if cwd is not None or settings:
        argv = ["env", *([] if cwd is None else [f"--chdir={cwd}"]), *settings, *argv]
    if user is not None:
        argv = ["sh", "-c", _AS_USER, "sh", user, *argv]
    return argv
