"""The sending side of RMPP: a table of records in several MADs (IBTA volume 1, 13.6).

The sender sends a window of segments; the receiver's ACKs advance the window. Unacknowledged
segments are retransmitted after ACK_TIMEOUT_NS. After MAX_TRIES the transfer is aborted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from emu.device.ports import Clock, Timer
from emu.server.net.ib.sa.query import CapacityUser, limit_reached
from emu.server.net.ib.sa.worker import Job, Worker
from layouts.wire.sa import (
    DATA_BYTES,
    RMPP_NO_RESPTIME,
    RMPP_VERSION,
    SA_HDR_BYTES,
    RmppFlags,
    RmppStatus,
    RmppType,
    sa_mad,
)

log = logging.getLogger(__name__)

MAX_TRANSFERS = 64
MAX_TRANSFERS_OF_A_PORT = 8
ACK_TIMEOUT_NS = 2_000_000_000
MAX_TRIES = 4
_COST_OF_A_SEGMENT = 2

Key = tuple[int, int, int]
"""Key of a transfer: LID and QP of the receiver, transaction id."""


@dataclass(slots=True)
class _Transfer:
    key: Key
    table: _Table
    send: Callable[[bytes], None]
    following: int = 1
    """Next segment to send; ``limit`` is the last one to send now."""
    limit: int = 0
    is_sending: bool = False
    sent: int = 0
    """Highest segment sent; segments count from 1."""
    acked: int = 0
    window: int = 1
    """Last segment that the receiver's window permits."""
    tries: int = 1
    timer: Timer | None = None


class RmppSender:
    """The transfers in progress."""

    def __init__(self, clock: Clock, worker: Worker, host_of: Callable[[int], Hashable]) -> None:
        self._clock = clock
        self._host_of = host_of
        self._worker = worker
        self._transfers: dict[Key, _Transfer] = {}

    def __len__(self) -> int:
        return len(self._transfers)

    def has(self, key: Key) -> bool:
        """Return whether a transfer is in progress: a repeated request starts no second one."""
        return key in self._transfers

    def may_start(self, key: Key) -> bool:
        """Return whether one more transfer to this receiver's LID can start.

        Limits are MAX_TRANSFERS in all, half of them for the LID's host, and
        MAX_TRANSFERS_OF_A_PORT for the LID.
        """
        owners = [self._owner(each) for each in self._transfers]
        limit = limit_reached(owners, self._owner(key), MAX_TRANSFERS, MAX_TRANSFERS_OF_A_PORT)
        return not limit

    def _owner(self, key: Key) -> CapacityUser:
        return CapacityUser(key[0], self._host_of(key[0]))

    def start(self, key: Key, answer: sa_mad, data: bytes, send: Callable[[bytes], None]) -> None:
        """Begin to send ``data`` in segments, under the headers of ``answer`` (a view of a MAD).

        ``send`` receives each MAD. Segments are repeated until acknowledged, and the transfer is
        aborted after MAX_TRIES.
        """
        transfer = _Transfer(key, _Table(bytes(answer), data), send)
        self._transfers[key] = transfer
        self._advance(transfer)

    def receive(self, key: Key, mad: sa_mad) -> None:
        """Handle an ACK, STOP or ABORT from a receiver; ignore one without a transfer.

        STOP, ABORT and an ACK with a status end the transfer. An ACK beyond the sent segments
        aborts it with S2B, a window before the ACK with W2S. An outdated ACK is ignored.
        """
        transfer = self._transfers.get(key)
        if transfer is None:
            return
        if mad.rmpp_hdr.rmpp_type != RmppType.ACK or mad.rmpp_hdr.rmpp_status:
            log.debug("RMPP transfer %s: the receiver ended it", key)
            self._end(transfer)
            return
        seg_num, window = mad.rmpp_hdr.seg_num, mad.rmpp_hdr.paylen_newwin
        if seg_num > transfer.sent or window < seg_num:
            status = RmppStatus.S2B if seg_num > transfer.sent else RmppStatus.W2S
            self._give_up(transfer, status)
        elif seg_num >= transfer.acked and window >= transfer.window:
            transfer.acked, transfer.window, transfer.tries = seg_num, window, 1
            self._advance(transfer)

    def _advance(self, transfer: _Transfer) -> None:
        """Send the segments that fit into the window; end the transfer if all are acknowledged."""
        if transfer.acked == transfer.table.count:
            self._end(transfer)
            return
        first = transfer.following if transfer.is_sending else transfer.sent + 1
        self._send(transfer, max(first, transfer.acked + 1), transfer.window)

    def _send(self, transfer: _Transfer, first: int, last: int) -> None:
        """Send the segments from ``first`` to ``last`` in steps, and restart the ACK timer."""
        transfer.following, transfer.limit = first, min(last, transfer.table.count)
        self._wait(transfer)
        if not transfer.is_sending:
            transfer.is_sending = True
            self._worker.begin(self._sending(transfer))

    def _sending(self, transfer: _Transfer) -> Job:
        """Send the segments up to the transfer's limit; each step yields its cost.

        Stop when the transfer has ended or another one has its key.
        """
        try:
            while self._transfers.get(transfer.key) is transfer:
                if transfer.following > transfer.limit:
                    break
                number = transfer.following
                transfer.following += 1
                transfer.sent = max(transfer.sent, number)
                transfer.send(transfer.table.segment(number))
                yield _COST_OF_A_SEGMENT
        finally:
            transfer.is_sending = False

    def _wait(self, transfer: _Transfer) -> None:
        if transfer.timer is not None:
            transfer.timer.cancel()
        transfer.timer = self._clock.call_later(ACK_TIMEOUT_NS, lambda: self._repeat(transfer))

    def _repeat(self, transfer: _Transfer) -> None:
        """Send the unacknowledged segments again; abort with TMR after MAX_TRIES.

        While segments wait for the worker, only the timer is restarted, and no try is counted.
        """
        if transfer.is_sending:
            self._wait(transfer)
            return
        if transfer.tries >= MAX_TRIES:
            self._give_up(transfer, RmppStatus.TMR)
            return
        transfer.tries += 1
        self._send(transfer, transfer.acked + 1, transfer.sent)

    def _give_up(self, transfer: _Transfer, status: RmppStatus) -> None:
        """End a transfer, and send ABORT with ``status`` to its receiver."""
        log.info("RMPP transfer %s: aborted, %s", transfer.key, status.name)
        self._end(transfer)
        transfer.send(abort(sa_mad.view(transfer.table.segment(1)), status))

    def _end(self, transfer: _Transfer) -> None:
        """Remove a transfer and cancel its timer. Raises KeyError if it has ended already."""
        if transfer.timer is not None:
            transfer.timer.cancel()
        del self._transfers[transfer.key]


def abort(mad: sa_mad, status: RmppStatus) -> bytes:
    """Return an RMPP ABORT packet with ``status`` under the headers of ``mad``."""
    view = sa_mad.new(mad_hdr=mad.mad_hdr)
    view.rmpp_hdr = {
        "rmpp_version": RMPP_VERSION,
        "rmpp_type": RmppType.ABORT,
        "rmpp_rtime": RMPP_NO_RESPTIME,
        "rmpp_flags": RmppFlags.ACTIVE,
        "rmpp_status": status,
    }
    return bytes(view)


class _Table:
    """Records as whole MADs, each built when it is sent.

    The first MAD has the length of all data, the last one the length of its own (13.6.2.2).
    """

    __slots__ = ("_data", "_head", "count")

    def __init__(self, head: bytes, data: bytes) -> None:
        """Store the data; ``head`` is a MAD with the headers of all segments."""
        self._head, self._data = head, data
        self.count = -(-len(data) // DATA_BYTES) or 1

    def segment(self, number: int) -> bytes:
        """Return the MAD with this segment number; segments count from 1.

        An empty table has one segment without data.
        """
        at = (number - 1) * DATA_BYTES
        part = self._data[at : at + DATA_BYTES]
        flags, length = RmppFlags.ACTIVE, 0
        if number == 1:
            flags, length = flags | RmppFlags.FIRST, len(self._data) + self.count * SA_HDR_BYTES
        if number == self.count:
            flags, length = flags | RmppFlags.LAST, len(part) + SA_HDR_BYTES
        view = sa_mad.view(bytearray(self._head))
        view.rmpp_hdr = {
            "rmpp_version": RMPP_VERSION,
            "rmpp_type": RmppType.DATA,
            "rmpp_rtime": RMPP_NO_RESPTIME,
            "rmpp_flags": flags,
            "seg_num": number,
            "paylen_newwin": length,
        }
        view.data = part.ljust(DATA_BYTES, b"\0")
        return bytes(view)
