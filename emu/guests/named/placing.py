"""Where and as whom a command runs in a guest: the command before it that sees to that."""

from __future__ import annotations

from collections.abc import Sequence

_AS_USER = (
    'user=$1; shift; group=$(id -g -- "$user") || exit 125; '
    'exec setpriv --reuid "$user" --regid "$group" --init-groups --reset-env -- "$@"'
)


def placed(
    words: Sequence[str],
    *,
    cwd: str | None = None,
    settings: Sequence[str] = (),
    user: str | None = None,
) -> list[str]:
    """The command ``words`` in the directory ``cwd`` as ``user``; ``settings`` are ``NAME=VALUE``.

    Status 125 says that the directory or the user is not there, as of coreutils' env. The user
    has the environment of a login: HOME, SHELL, USER, LOGNAME and PATH.
    """
    argv = list(words)
    if cwd is not None or settings:
        argv = ["env", *([] if cwd is None else [f"--chdir={cwd}"]), *settings, *argv]
    if user is not None:
        argv = ["sh", "-c", _AS_USER, "sh", user, *argv]
    return argv
