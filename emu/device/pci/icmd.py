"""The ICMD space behind the vendor-specific gateway: commands of tools and of boot firmware.

The space has a control word, the size of the mailbox, and the mailbox itself. A program acquires
the lock of this interface in the semaphore space, writes opcode and input, and sets the busy bit.
The program polls until the bit is clear, then reads status and output. Words are numbers; the bytes
of a structure are big-endian in them.

Source: mlx_icmd.c and mlx_pci_gw.c of iPXE; mtcr_ul of mstflint.
"""

from __future__ import annotations

from typing import Final, Protocol

MAILBOX_BYTES: Final = 1024

CONTROL: Final = 0x0
MAILBOX_SIZE: Final = 0x1000
MAILBOX: Final = 0x10_0000

BUSY: Final = 1
_STATUS_SHIFT: Final = 8
_OPCODE_SHIFT: Final = 16


class Icmd(Protocol):
    """Runs the commands."""

    def run(self, opcode: int, mailbox: bytearray) -> int:
        """Run a command, replace its input in ``mailbox`` by its output, and return the 8-bit
        status.

        Never raises.
        """


class IcmdSpace:
    """The ICMD space, in words. A command finishes before the busy bit can be read."""

    def __init__(self, icmd: Icmd) -> None:
        self._icmd = icmd
        self.clear()

    def clear(self) -> None:
        """Return to the state after a reset."""
        self._control = 0
        self._mailbox = bytearray(MAILBOX_BYTES)

    def read(self, address: int) -> int | None:
        """Return the word at a byte address; None for an unused or unaligned address.

        The control word is the last opcode and status, with the busy bit clear after a command.
        """
        if address == CONTROL:
            return self._control
        if address == MAILBOX_SIZE:
            return MAILBOX_BYTES
        at = self._mailbox_offset(address)
        return None if at is None else int.from_bytes(self._mailbox[at : at + 4], "big")

    def write(self, address: int, value: int) -> bool:
        """Store a word; return False, without a change, unless the address is writable.

        Writing the busy bit to the control word runs the command at once; its output and status can
        be read afterwards.
        """
        if address == CONTROL:
            self._control = value
            if value & BUSY:
                self._go(value >> _OPCODE_SHIFT)
            return True
        at = self._mailbox_offset(address)
        if at is None:
            return False
        self._mailbox[at : at + 4] = value.to_bytes(4, "big")
        return True

    def _go(self, opcode: int) -> None:
        status = self._icmd.run(opcode, self._mailbox)
        self._control = opcode << _OPCODE_SHIFT | status << _STATUS_SHIFT

    @staticmethod
    def _mailbox_offset(address: int) -> int | None:
        at = address - MAILBOX
        return at if 0 <= at < MAILBOX_BYTES and not at % 4 else None
