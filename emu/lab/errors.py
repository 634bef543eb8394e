"""What can go wrong in the lab, each with the exit status that ``mlx5emu`` gives it.

The statuses 123 to 125 lie outside what ordinary commands use, and 124 means a timeout as it does
for coreutils' ``timeout``; so a script can tell the guest's failure from its command's.
"""

from __future__ import annotations

from emu.host.user_error import UserError


class LabError(UserError):
    """The lab cannot do what was asked: a wrong option, a missing program, a failed build."""


class GuestError(LabError):
    """The guest did not do what was asked; ``console`` holds its last lines."""

    status = 125

    def __init__(self, message: str, console: str = "") -> None:
        super().__init__(message)
        self.console = console

    def detail(self) -> str:
        """The last lines of the console."""
        return f"The console's last lines:\n{self.console}" if self.console else ""


class ChannelClosedError(GuestError):
    """QEMU has closed the port into the guest: the guest is no more."""


class GuestPanicError(GuestError):
    """The guest's kernel panicked."""


class GuestStoppedError(GuestError):
    """The guest powered off or rebooted by itself, or QEMU ended."""


class GuestHungError(GuestError):
    """The guest gave no sign of life for too long, while it booted or later."""

    status = 124


class ServerError(GuestError):
    """The process that serves the emulated functions did not start, or ended."""

    status = 123


class CommandTimeoutError(GuestError):
    """A command ran longer than it may; ``stdout`` and ``stderr`` hold what it had said."""

    status = 124

    def __init__(self, message: str, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__(message)
        self.stdout = stdout
        self.stderr = stderr


class CommandFailedError(GuestError):
    """A command that had to succeed did not; ``stderr`` holds what it complained of."""

    status = 1

    def __init__(self, message: str, stderr: str = "") -> None:
        last = stderr.strip().splitlines()[-1:]
        super().__init__(": ".join([message, *last]))
        self.stderr = stderr
