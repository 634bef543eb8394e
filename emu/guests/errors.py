"""The lab's errors, each with the exit status with which ``mlx5emu`` reports it.

Ordinary commands do not use the statuses 123 to 125, and 124 is a timeout as in coreutils'
``timeout``. A script can therefore tell a failure of the guest from a failure of its command.
"""

from __future__ import annotations

import json

from emu.host.printable import printable
from emu.host.user_error import WRONG_USE, UserError


class LabError(UserError):
    """The lab cannot do what was asked: a wrong option, a missing program, a failed build."""


class GuestError(LabError):
    """The guest did not do what was asked; ``console`` holds its last lines."""

    status = 125

    def __init__(self, message: str, console: str = "") -> None:
        super().__init__(message)
        self.console = console

    def detail(self) -> str:
        """Return the last lines of the console."""
        return f"The console's last lines:\n{self.console}" if self.console else ""


class ChannelClosedError(GuestError):
    """QEMU has closed the port into the guest: the guest has ended."""


class GuestPanicError(GuestError):
    """The guest's kernel panicked."""


class GuestStoppedError(GuestError):
    """The guest powered off or rebooted by itself, or QEMU ended."""


class GuestHungError(GuestError):
    """The guest did not respond for too long, while booting or later."""

    status = 124


class ServerError(GuestError):
    """The process that serves the emulated functions did not start, or ended."""

    status = 123


class RefusedError(ServerError):
    """The process that serves the emulated functions refuses its options."""

    status = WRONG_USE


class CommandTimeoutError(GuestError):
    """A command exceeded its time limit; ``stdout`` and ``stderr`` hold its output until then."""

    status = 124

    def __init__(self, message: str, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__(message)
        self.stdout = stdout
        self.stderr = stderr


class CommandFailedError(GuestError):
    """A command that had to succeed failed; ``stderr`` holds its error output."""

    status = 1

    def __init__(self, message: str, stderr: str = "", hint: str = "") -> None:
        """Append the last line of ``stderr`` to the message, and ``hint`` on a line of its own."""
        last = stderr.strip().splitlines()[-1:]
        super().__init__(": ".join([message, *last]) + f"\n{hint}" * bool(hint))
        self.stderr = stderr


_MAX_CONSOLE_LENGTH = 100_000
"""Maximum length in characters of a console in an error for another process."""


def as_reported(error: Exception) -> bytes:
    """Encode an error's exit status, message and console as JSON for another process.

    Texts are cut at 100,000 characters. The receiver decodes them by :func:`reported_failure`.
    """
    status = error.status if isinstance(error, UserError) else 1
    console = error.console if isinstance(error, GuestError) else ""
    text = {"message": str(error) or repr(error), "console": console}
    short = {name: value[:_MAX_CONSOLE_LENGTH] for name, value in text.items()}
    return json.dumps({"status": status, **short}).encode()


def reported_failure(data: bytes) -> GuestError:
    """Return another process's error, with its exit status, as a :class:`GuestError`.

    The class of the original error is lost. Unreadable ``data`` gives an error that says so.
    """
    try:
        table = json.loads(data)
        error = GuestError(printable(str(table["message"])), printable(str(table["console"])))
        error.status = int(table["status"]) & 0xFF
    except (ArithmeticError, ValueError, KeyError, TypeError, RecursionError):
        return GuestError("failed; the reported reason cannot be read")
    return error
