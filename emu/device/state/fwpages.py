"""Firmware pages: memory that the driver gives to the device on loan (PRM "ICM memory").

Real devices keep their contexts in host memory. The emulator needs none, but can still request
some, to exercise the driver's code that gives pages, reclaims them and handles page requests.
"""

from __future__ import annotations

from typing import Final

from emu.device.objects.ledger import Ledger

MAX_PAGES = 1 << 14
"""Limit of 64 MiB, far above what the device requests. All of them are compared, returned or
forgotten within a step of long work."""

_KIND: Final = "firmware page"
_BYTES: Final = 128
"""Host memory for the record of one page, in bytes."""


class FirmwarePages:
    """The pages that the driver has given, and the number that the device requests."""

    def __init__(self, boot_pages: int, ledger: Ledger) -> None:
        self.boot_pages = boot_pages
        """Pages requested at boot, and the same number again at init."""
        self.wanted = 0
        """Pages without which a virtual function's driver cannot start."""
        self.is_refused = False
        """Whether the driver has reported that it cannot give them."""
        self.virtual: dict[int, FirmwarePages] = {}
        """Pages that the driver of a physical function has given for virtual ones, by vPort."""
        self.accepted = 0
        """Number of commands of this function that have given pages, for any function."""
        self._given: dict[int, None] = {}
        self._ledger = ledger

    def __len__(self) -> int:
        return len(self._given)

    def of(self, vport_number: int) -> FirmwarePages:
        """Return the pages given for a virtual function, or these themselves for number 0."""
        if not vport_number:
            return self
        pages = self.virtual.get(vport_number)
        if pages is None:
            pages = self.virtual[vport_number] = FirmwarePages(0, self._ledger)
        return pages

    @property
    def is_waiting(self) -> bool:
        """Whether pages are missing that the driver has not refused."""
        return len(self._given) < self.wanted and not self.is_refused

    @property
    def surplus(self) -> int:
        """Number of pages that are not in use, so that the driver can take them back."""
        return max(len(self._given) - self.wanted, 0)

    def want(self, count: int) -> None:
        """Set the number of pages in use; a refusal of the driver is forgotten."""
        self.wanted, self.is_refused = count, False

    def refuse(self) -> None:
        """Record that the driver cannot give the pages in use that are missing, if any are."""
        self.is_refused = len(self._given) < self.wanted

    def holds_any(self, pages: dict[int, None]) -> bool:
        """Return whether the device holds any of the pages."""
        return not self._given.keys().isdisjoint(pages)

    def accept(self, pages: dict[int, None]) -> None:
        """Accept pages (IOVAs of 4 KiB), none of which is held already; charge the ledger for them.

        Raises LIM_ERR, and then accepts none, when the ledger has no space.
        """
        self._ledger.take(_KIND, len(pages) * _BYTES)
        self._given.update(pages)
        self.is_refused = self.is_refused and len(self._given) < self.wanted

    def reclaim(self, count: int) -> list[int]:
        """Remove and return up to ``count`` pages for the driver, the newest first.

        Empty without pages.
        """
        pages = [self._given.popitem()[0] for _ in range(min(count, len(self._given)))]
        self._ledger.give_back(_KIND, len(pages) * _BYTES)
        return pages

    def forget(self) -> None:
        """Drop all pages without a return to the driver."""
        self._ledger.give_back(_KIND, len(self._given) * _BYTES)
        self._given.clear()
        self.want(0)
