"""Sets the directory, environment and user of a guest's command, by words before the command's.

The shared directory's paths, on the host and in the guest, are converted here, too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

SHARE = "/mnt/share"
"""Where the guest mounts the shared directory."""
NOT_FOUND = 127
"""Status of a command that the guest does not have, the same as a shell's."""

NOT_EXECUTABLE = 126
"""Status of a command that is not executable, the same as a shell's."""

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


def of_host(path: str, share: Path) -> Path | None:
    """Return the host's path of a path in the guest; None outside the shared directory."""
    inside = Path(os.path.normpath(path))
    return share / inside.relative_to(SHARE) if inside.is_relative_to(SHARE) else None


def not_executable(word: str, path: Path) -> str:
    """Return how a command that names the file ``path`` of the host as ``word`` can run it."""
    return f"{word}: not executable: chmod +x {path}"


def how_executable(word: str, share: Path | None, cwd: str | None = None) -> str:
    """Return how the guest can execute the file of the shared directory that ``word`` names.

    ``share`` and ``cwd`` are those of :func:`how_found`. Return an empty text for an executable
    file, and for one that is not there.
    """
    file = None if share is None else of_host(os.path.join(SHARE, cwd or "", word), share)
    if file is None or not file.is_file() or os.access(file, os.X_OK):
        return ""
    return not_executable(word, file)


def how_found(
    word: str, share: Path | None, cwd: str | None = None, option: str = "--share {}"
) -> str:
    """Return how the guest finds the host's file ``word``, which a command did not find there.

    ``share`` is the shared directory, ``cwd`` the command's directory in it, and ``option`` shares
    a directory. Return an empty text for a file that the host lacks.
    """
    if os.sep not in word:
        file = None if share is None else of_host(os.path.join(SHARE, cwd or "", word), share)
        if file is None or not file.is_file():
            return ""
        how = (
            f"./{word} runs it" if os.access(file, os.X_OK) else f"not executable: chmod +x {file}"
        )
        return f"{word} is a file of the shared directory: {how}"
    path = Path(word)
    if not path.is_file():
        return ""
    resolved = path.resolve()
    if share is not None and resolved.is_relative_to(share.resolve()):
        how = f"the guest sees it as {Path(SHARE) / resolved.relative_to(share.resolve())}"
        if not os.access(resolved, os.X_OK):
            how += "; it is not executable"
    else:
        how = f"share its directory: {option.format(resolved.parent)}"
    return f"{word} was not found in the guest: {how}"
