"""A process's role on a fabric, hub or member, and the transitions between roles.

The first process at the fabric's address listens and is the hub; the others connect and become
members. When the hub ends, the remaining processes repeat this. Each requests the LIDs and GUIDs
that its functions already have.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from emu.device.ports import Timer
from emu.server.net.fabric.address import Address, FabricError, FabricListener, TcpAddress
from emu.server.net.fabric.directory import TakenError
from emu.server.net.fabric.hub import Hub
from emu.server.net.fabric.hub_host import HubHost
from emu.server.net.fabric.member import Membership
from emu.server.net.fabric.protocol import Identity
from emu.server.net.poller import Poller, Reactor

log = logging.getLogger(__name__)

RETRY_NS = 200_000_000
JOIN_TIMEOUT_NS = 15_000_000_000
PATIENCE_NS = 3_000_000_000
"""Delay before a log message about the wait; a busy machine needs a second."""
ANSWER_NS = 8_000_000_000
"""Time for a hub that accepts the connection to answer HELLO; a busy machine needs seconds."""
MAX_UNANSWERED = 5
"""Consecutive connections that may end before WELCOME: a hub that ends closes one or two."""
_NO_HUB = "no hub answers"


class ElectionCallbacks(HubHost, Protocol):
    """The process, which handles changes of its role."""

    def role_taken(self, *, again: bool) -> None:
        """Handle that this process is hub or member now; ``again`` means after an earlier role."""

    def role_lost(self) -> None:
        """Handle that a member lost its hub; the process tries to join until :meth:`role_taken`."""


class Election:
    """A process that is the hub of a fabric, a member, or a candidate."""

    def __init__(
        self,
        candidate: ElectionCallbacks,
        address: Address,
        loop: Reactor,
        poller: Poller,
        requested: Sequence[Identity],
    ) -> None:
        """Store the LIDs and GUIDs that the process's functions request; 0 requests any."""
        self.role: Hub | Membership | None = None
        self.has_joined = False
        self._candidate = candidate
        self._address = address
        self._loop = loop
        self._poller = poller
        self._requested = list(requested)
        self._trying: Membership | None = None
        self._former: list[Identity] = []
        """The functions of other processes when the hub ended."""
        self._why, self._why_lost = _NO_HUB, ""
        self._is_refused = self._is_closed = False
        self._retry: Timer | None = None
        self._tried_ns = 0
        """Time at which the attempt in progress began."""
        self._unanswered = 0
        """Consecutive accepted connections that ended before WELCOME or REFUSED."""

    def join(self, timeout_ns: int = JOIN_TIMEOUT_NS) -> list[Identity]:
        """Run the loop until this process is hub or member; return the functions' LIDs and GUIDs.

        Raises FabricError once the hub refuses, the address is unusable, another program answers
        there, a connection stays unanswered for ANSWER_NS, or ``timeout_ns`` has passed. A wait
        above PATIENCE_NS is logged once.
        """
        start = self._loop.now_ns()
        says_at, end = start + PATIENCE_NS, start + timeout_ns
        self._try()
        while self.role is None:
            now = self._loop.now_ns()
            if self._is_accepted() and now >= self._tried_ns + ANSWER_NS:
                raise FabricError(f"fabric {self._address}: {self._held()}")
            if self._is_refused or now >= end:
                raise FabricError(f"fabric {self._address}: {self._why}")
            if now >= says_at:
                why = "the connection is not answered" if self._is_accepted() else self._why
                log.warning("fabric %s: waiting for a hub to accept us (%s)", self._address, why)
                says_at = end
            self._loop.step(RETRY_NS)
        return self._requested

    def leave(self) -> None:
        """Close the role and an attempt in progress, and make no further attempt to join."""
        self._is_closed = True
        for part in (self._trying, self.role):
            if part is not None:
                part.close()
        self._trying = self.role = None

    # -- joining

    def _try(self) -> None:
        """Start to connect to the hub, or listen if the connection fails at once.

        Do nothing after :meth:`leave`, with a role, or while an attempt runs.
        """
        if self._is_closed or self.role is not None or self._trying is not None:
            return
        try:
            sock = self._address.connect()
        except OSError:
            self._try_to_listen()
        else:
            self._tried_ns = self._loop.now_ns()
            self._trying = Membership(self._candidate, self, sock, self._requested)

    def _try_later(self, delay_ns: int = RETRY_NS) -> None:
        """Schedule the next attempt to join, in place of an earlier scheduled one."""
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._loop.call_later(delay_ns, self._try)

    def _try_to_listen(self) -> None:
        """Become the hub, or retry later when another process listens or the host is remote.

        An OSError counts as a refusal with its text.
        """
        try:
            listener = self._address.listen()
        except OSError as error:
            self.refused(error.strerror or str(error))
            return
        if listener is None:
            self._try_later()
        else:
            self._become_hub(listener)

    def _become_hub(self, listener: FabricListener) -> None:
        """Take the hub's role; close the listener and record a refusal if our own numbers clash."""
        try:
            hub = Hub(self._candidate, listener, self._requested, self._former)
        except TakenError as error:
            listener.close()
            self.refused(str(error))
            return
        self._poller.listen(hub.fileno(), hub.accept)
        log.info("fabric %s: this process is the hub", self._address)
        self._settle(hub, hub.identities)

    def joined(self, membership: Membership, identities: list[Identity]) -> None:
        """Take the member's role with the LIDs and GUIDs of the hub, and notify the owner."""
        self._trying = None
        log.info("fabric %s: this process has joined as a member", self._address)
        self._settle(membership, identities)

    def _settle(self, role: Hub | Membership, identities: list[Identity]) -> None:
        """Store the role and its identities for later joins, and call ``role_taken``."""
        self.role, self._requested = role, identities
        self._why, self._is_refused, self._unanswered = _NO_HUB, False, 0
        again, self.has_joined = self.has_joined, True
        self._candidate.role_taken(again=again)

    # -- failing to join, and losing the hub

    def _is_accepted(self) -> bool:
        """Return whether an attempt to join has connected, and waits for the answer to HELLO."""
        return self._trying is not None and self._trying.connection.has_sent

    def _held(self) -> str:
        """Return the reason for a connection that no hub answers."""
        address = self._address
        what = f"port {address.port}" if isinstance(address, TcpAddress) else str(address.path)
        return f"{what} is held by another program, which does not answer as a fabric's hub"

    def refused(self, why: str) -> None:
        """Record the reason, and retry after RETRY_NS; the first :meth:`join` raises FabricError.

        After an earlier role, each new reason is logged as a warning.
        """
        self._trying = None
        if self.has_joined and why != self._why:
            log.warning("fabric %s: cannot join again: %s; retrying", self._address, why)
        self._why, self._is_refused = why, True
        self._try_later()

    def lost(self, membership: Membership, why: str) -> None:
        """Handle a failed attempt to connect, or the loss of the hub.

        A failed attempt tries to listen at once. MAX_UNANSWERED connections that end before WELCOME
        count as a refusal, because another program has the address. After a loss, the other
        processes' numbers are kept for the next hub, ``role_lost`` is called, and joining starts
        again.
        """
        if membership is self._trying:
            self._trying = None
            self._why = why or self._why
            self._unanswered = self._unanswered + 1 if membership.connection.has_sent else 0
            self._try_to_listen()
            if self.role is None and self._unanswered >= MAX_UNANSWERED:
                self.refused(self._held())
            return
        if not why or why != self._why_lost:
            log.warning("fabric %s: the hub is lost%s", self._address, f": {why}" if why else "")
        self._why_lost, self._why = why, why or "the hub is lost"
        self._former = membership.others()
        self.role = None
        self._candidate.role_lost()
        # A process that breaks the protocol may break it again at once.
        self._try_later(RETRY_NS if why else 0)
