"""Keys of the terminal, for a command that runs until one is pressed."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator

_MAX_READ = 64


@contextlib.contextmanager
def key_pressed(keys: bytes) -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits for some seconds and returns True at once for a key of ``keys``.

    The function returns True too when the terminal is closed, and False after the seconds. While
    the body runs, the terminal is in cbreak mode without echo; Ctrl-C is still a signal. If
    standard input is not a terminal, the function only waits.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        yield _without_keys
        return
    fd = sys.stdin.fileno()
    settings = termios.tcgetattr(fd)
    try:
        tty.setcbreak(fd)
        yield lambda seconds: _await(fd, keys, seconds)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, settings)


def _without_keys(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _await(fd: int, keys: bytes, seconds: float) -> bool:
    """Wait up to ``seconds``; return whether a key of ``keys`` was pressed.

    Return True too when the terminal is closed.
    """
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([fd], [], [], left)[0]:
            return False
        pressed = os.read(fd, _MAX_READ)
        if not pressed or not set(pressed).isdisjoint(keys):
            return True  # an empty read means that the terminal is closed
    return False
