"""A command of ours on a terminal, with what the user types."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios

from emu.host.process_identity import module_command

ROWS = 40
_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")


def _own_terminal():
    """Take the terminal, and obey Ctrl-C as in a login shell: pytest may run in the background."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A command on a pseudo terminal of so many columns, for a ``with`` statement."""

    def __init__(self, *words, columns=80, stderr=None):
        self.fd, self._theirs = pty.openpty()
        size = struct.pack("HHHH", ROWS, columns, 0, 0)
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, size)
        environ = {
            name: os.environ[name] for name in os.environ if name not in ("LINES", "COLUMNS")
        }
        environ |= {"TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
        self.settings = self.current()
        self.process = subprocess.Popen(
            [*module_command("emu"), *map(str, words)],
            stdin=self._theirs, stdout=self._theirs, stderr=stderr or self._theirs,
            env=environ, start_new_session=True,
            preexec_fn=_own_terminal,
        )  # fmt: skip
        self.raw = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for fd in (self.fd, self._theirs):
            with contextlib.suppress(OSError):
                os.close(fd)

    def current(self):
        """The terminal's settings now."""
        return termios.tcgetattr(self._theirs)

    def type(self, keys):
        os.write(self.fd, keys)

    def read_until(self, words):
        """Read until the command has said these words."""
        while words not in self.raw:
            self.raw += os.read(self.fd, 1 << 16)

    def status(self):
        """Read what is left, and return the status with which the command has ended."""
        os.set_blocking(self.fd, False)
        while True:
            has_ended = self.process.poll() is not None
            with contextlib.suppress(BlockingIOError):
                while data := os.read(self.fd, 1 << 16):
                    self.raw += data
            if has_ended:
                return self.process.returncode
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.02)

    @property
    def lines(self):
        """What the command has said, without colours; of a line that it has rewritten, the last."""
        text = _ESCAPES.sub(b"", self.raw).decode()
        return [line.rpartition("\r")[2] for line in text.replace("\r\n", "\n").splitlines()]


def said(*words, columns=80):
    """The lines that a command prints on a terminal, without its progress; it has to succeed."""
    with Terminal(*words, columns=columns, stderr=subprocess.DEVNULL) as terminal:
        assert terminal.status() == 0, terminal.raw.decode()
        return terminal.lines
