"""A process's place on a fabric: how it gets there, loses it, and comes back.

Whoever comes first to the fabric's address listens and is the hub; the others connect and become
members. When the hub goes, those that are left do the same again, each under the numbers that its
functions have.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from emu.net.ib.address import Address, FabricError, Listener
from emu.net.ib.directory import TakenError
from emu.net.ib.hub import Hub, Site
from emu.net.ib.member import Membership
from emu.net.ib.poller import Poller, Reactor
from emu.net.ib.protocol import Identity
from emu.ports import Timer

log = logging.getLogger(__name__)

RETRY_NS = 200_000_000
JOIN_TIMEOUT_NS = 15_000_000_000
PATIENCE_NS = 1_000_000_000
"""After so long it is said what is waited for."""
_NOBODY = "nobody answers"


class Sitter(Site, Protocol):
    """The process, which hears when its place changes."""

    def seated(self, *, again: bool) -> None:
        """It has become the hub or a member, perhaps not for the first time."""

    def unseated(self) -> None:
        """The hub has gone."""


class Seat:
    """The hub of a fabric, a member, or on the way there."""

    def __init__(
        self,
        sitter: Sitter,
        address: Address,
        loop: Reactor,
        poller: Poller,
        wanted: Sequence[Identity],
    ) -> None:
        """``wanted`` are the numbers that the process's functions shall have, 0 for any."""
        self.role: Hub | Membership | None = None
        self.has_been_taken = False
        self._sitter = sitter
        self._address = address
        self._loop = loop
        self._poller = poller
        self._wanted = list(wanted)
        self._trying: Membership | None = None
        self._former: list[Identity] = []
        """Who was on the fabric when the hub went."""
        self._why, self._why_lost = _NOBODY, ""
        self._is_refused = self._is_closed = False
        self._retry: Timer | None = None

    def take(self, timeout_ns: int = JOIN_TIMEOUT_NS) -> list[Identity]:
        """Become a part of the fabric; gives the numbers of our functions.

        Waits for the hub. Raises :class:`FabricError`.
        """
        start = self._loop.now_ns()
        says_at, end = start + PATIENCE_NS, start + timeout_ns
        self._try()
        while self.role is None:
            now = self._loop.now_ns()
            if self._is_refused or now >= end:
                raise FabricError(f"fabric {self._address}: {self._why}")
            if now >= says_at:
                log.warning("fabric %s: not there yet (%s): waiting", self._address, self._why)
                says_at = end
            self._loop.step(RETRY_NS)
        return self._wanted

    def leave(self) -> None:
        """Close every socket, for good."""
        self._is_closed = True
        for part in (self._trying, self.role):
            if part is not None:
                part.close()
        self._trying = self.role = None

    # -- on the way there

    def _try(self) -> None:
        """Connect to the hub; where there is none, be it."""
        if self._is_closed or self.role is not None or self._trying is not None:
            return
        try:
            sock = self._address.connect()
        except OSError:
            self._try_to_listen()
        else:
            self._trying = Membership(self._sitter, self, sock, self._wanted)

    def _try_later(self, delay_ns: int = RETRY_NS) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._loop.call_later(delay_ns, self._try)

    def _try_to_listen(self) -> None:
        try:
            listener = self._address.listen()
        except OSError as error:
            self.refused(error.strerror or str(error))
            return
        if listener is None:
            self._try_later()
        else:
            self._become_hub(listener)

    def _become_hub(self, listener: Listener) -> None:
        try:
            hub = Hub(self._sitter, listener, self._wanted, self._former)
        except TakenError as error:
            listener.close()
            self.refused(str(error))
            return
        self._poller.listen(hub.fileno(), hub.accept)
        log.info("fabric %s: we listen", self._address)
        self._settle(hub, hub.identities)

    def joined(self, membership: Membership, identities: list[Identity]) -> None:
        """The hub has welcomed us, under these numbers."""
        self._trying = None
        log.info("fabric %s: joined", self._address)
        self._settle(membership, identities)

    def _settle(self, role: Hub | Membership, identities: list[Identity]) -> None:
        self.role, self._wanted = role, identities
        self._why, self._is_refused = _NOBODY, False
        again, self.has_been_taken = self.has_been_taken, True
        self._sitter.seated(again=again)

    # -- not there

    def refused(self, why: str) -> None:
        """It cannot be. Where we have had our place before, we go on asking."""
        self._trying = None
        if self.has_been_taken and why != self._why:
            log.warning("fabric %s: cannot come back: %s", self._address, why)
        self._why, self._is_refused = why, True
        self._try_later()

    def lost(self, membership: Membership, why: str) -> None:
        """The connection to the hub has ended, or could not be made."""
        if membership is self._trying:
            self._trying = None
            self._why = why or self._why
            self._try_to_listen()
            return
        if not why or why != self._why_lost:
            log.warning("fabric %s: the hub has gone%s", self._address, f": {why}" if why else "")
        self._why_lost, self._why = why, why or "the hub has gone"
        self._former = [Identity(port.lid, port.port_guid) for port in membership.ports()]
        self.role = None
        self._sitter.unseated()
        # A process that breaks the protocol may go on doing so.
        self._try_later(RETRY_NS if why else 0)
