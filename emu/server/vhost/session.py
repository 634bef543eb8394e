"""The messages of a vhost-user front end.

Kicks are messages, too (VHOST_USER_VRING_KICK), and each waits for our reply: the guest sleeps
until the access is executed, and does not poll.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Final

from emu.device.rounds.sizes import REQUEST_BYTES_PER_POLL
from emu.server.vfio.memory import READ, WRITE, DmaMap
from emu.server.vfio.protocol import VfioRequestError
from emu.server.vfio.server import SLOW_BYTES
from emu.server.vhost.msix import MsixTable
from emu.server.vhost.pcidev import COMMANDS, PciDevice
from emu.server.vhost.protocol import (
    FEATURES,
    MAX_REGIONS,
    MEM_REGION,
    MEM_TABLE,
    PROTOCOL_FEATURES,
    U64,
    VRING_ADDR,
    VRING_STATE,
    VhostProtocolError,
    VhostRequest,
    request_name,
)
from emu.server.vhost.queues import VhostQueues
from emu.server.vhost.stream import VhostStream


class VhostSession(VhostStream):
    """A front end from its first message to the end of its connection."""

    def __init__(
        self, sock: socket.socket, memory: DmaMap, vectors: MsixTable, device: PciDevice
    ) -> None:
        """Serve a front end; ``memory`` is the function's, accessible with bus mastering only."""
        super().__init__(sock)
        self._memory = memory
        self._vectors = vectors
        self._rings = DmaMap(trust_unsealed=True)
        self._rings.on_lost = memory.on_lost
        self._regions: list[tuple[int, int, int]] = []
        self._queues = VhostQueues(self._rings, device, self.hang_up)
        self._budget = 0
        self.behind = False
        """Whether more work may be pending: call :meth:`go_on` before receive()."""
        vectors.post = self._queues.post

    def close(self) -> None:
        """Stop the queues, unmap the rings' memory and close the connection.

        The function's own memory stays for the transport to clear.
        """
        self._queues.close()
        self._rings.clear()
        super().close()

    def dispatch(self) -> None:
        """Handle the received messages of one poll; set ``behind``, whether more may be pending.

        Raises OSError or :class:`VhostProtocolError` when the front end must be dropped.
        """
        self._budget = REQUEST_BYTES_PER_POLL
        self._handle_messages()

    def go_on(self) -> None:
        """Execute waiting accesses, then handle received messages, within one poll; set ``behind``.

        Raises OSError or :class:`VhostProtocolError` when the front end must be dropped.
        """
        self._budget = REQUEST_BYTES_PER_POLL
        self._run_commands()
        self._handle_messages()

    def _handle_messages(self) -> None:
        """Handle received messages and send replies until the budget is used; set ``behind``.

        Sends the reply of a request that has one, else a success if the front end wants a reply.
        """
        while self._budget > 0:
            message = self.next()
            if message is None:
                self.behind = False
                return
            self._budget -= SLOW_BYTES
            request, needs_reply, payload = message
            reply = self._answer(request, payload)
            if reply is not None:
                self.reply(request, reply)
            elif needs_reply:
                self.reply(request)
        self.behind = True

    def _answer(self, request: int, payload: bytes) -> bytes | None:
        """Handle a message.

        Return the reply's payload, or None for a request without a reply of its own. Raises
        :class:`VhostProtocolError` for an unsupported request, a payload of another size,
        descriptors that it does not carry, and for the errors of its handler.
        """
        size, descriptors, handler = _HANDLERS.get(request, _UNKNOWN)
        if handler is None:
            raise VhostProtocolError(f"{request_name(request)} is not supported")
        if size >= 0 and len(payload) != size:
            raise VhostProtocolError(f"{request_name(request)} of {len(payload)} bytes, not {size}")
        if not descriptors:
            self.take_descriptors(0)
        return handler(self, payload)

    def _get_features(self, _payload: bytes) -> bytes:
        return U64.pack(FEATURES)

    def _set_features(self, payload: bytes) -> None:
        """Check the features.

        Raise :class:`VhostProtocolError` for one that was not offered. Store nothing.
        """
        (features,) = U64.unpack(payload)
        if features & ~FEATURES:
            raise VhostProtocolError(f"features {features:#x}, the offered ones are {FEATURES:#x}")

    def _set_owner(self, _payload: bytes) -> None:
        """Do nothing: only one front end is connected at a time."""

    def _get_protocol_features(self, _payload: bytes) -> bytes:
        return U64.pack(PROTOCOL_FEATURES)

    def _set_protocol_features(self, payload: bytes) -> None:
        """Check the features.

        Raise :class:`VhostProtocolError` unless they are exactly the offered ones.
        """
        (features,) = U64.unpack(payload)
        if features != PROTOCOL_FEATURES:
            raise VhostProtocolError(
                f"protocol features {features:#x}, the required ones are {PROTOCOL_FEATURES:#x}"
            )

    def _set_backend_req_fd(self, _payload: bytes) -> None:
        self._queues.set_call_fd(self.take_descriptors(1)[0])

    def _set_mem_table(self, payload: bytes) -> None:
        """Replace the guest's memory by the regions of SET_MEM_TABLE, and close the descriptors.

        Raises :class:`VhostProtocolError` while queues run, and for a wrong size or number of
        regions or descriptors. Also raises for a region that cannot be mapped; then the regions
        before it stay mapped.
        """
        if len(payload) < MEM_TABLE.size:
            raise VhostProtocolError(f"a memory table of {len(payload)} bytes")
        number, _ = MEM_TABLE.unpack_from(payload)
        # User-Mode Linux always sends two entries (vhost_user.h: struct vhost_user_mem_regions).
        table = payload[MEM_TABLE.size : MEM_TABLE.size + number * MEM_REGION.size]
        if not 0 < number <= MAX_REGIONS or len(table) < number * MEM_REGION.size:
            raise VhostProtocolError(f"a memory table of {number} regions, {len(payload)} bytes")
        if self._queues.are_running:
            raise VhostProtocolError("SET_MEM_TABLE while queues run")
        fds = self.take_descriptors(number)
        try:
            self._map(list(MEM_REGION.iter_unpack(table)), fds)
        except VfioRequestError as error:
            raise VhostProtocolError(f"SET_MEM_TABLE: {error}") from None
        finally:
            for fd in fds:
                os.close(fd)

    def _map(self, regions: list[tuple[int, int, int, int]], fds: list[int]) -> None:
        """Replace the guest's memory in both maps: the function's, and that of the queues.

        The queues work without bus mastering. Raises VfioRequestError for a region that cannot be
        mapped; the old memory is gone then.
        """
        self._memory.clear()
        self._rings.clear()
        self._regions = []
        for fd, (guest, size, user, offset) in zip(fds, regions, strict=True):
            self._rings.map(guest, size, offset, READ | WRITE, fd)
            self._memory.map(guest, size, offset, READ | WRITE, fd)
            self._regions.append((user, size, guest))

    def _set_vring_num(self, payload: bytes) -> None:
        self._queues.set_size(*VRING_STATE.unpack(payload))

    def _set_vring_base(self, payload: bytes) -> None:
        self._queues.set_base(*VRING_STATE.unpack(payload))

    def _get_vring_base(self, payload: bytes) -> bytes:
        index, _ = VRING_STATE.unpack(payload)
        return VRING_STATE.pack(index, self._queues.stop(index))

    def _set_vring_addr(self, payload: bytes) -> None:
        """Set the rings of a stopped queue, given by addresses of the front end's process.

        Raises :class:`VhostProtocolError` for flags (no log support), a ring outside the memory, or
        an unaligned one.
        """
        index, flags, desc, used, avail, _ = VRING_ADDR.unpack(payload)
        if flags:
            raise VhostProtocolError(f"SET_VRING_ADDR with flags {flags:#x}: no log support")
        self._queues.set_rings(index, *map(self._guest_address, (desc, avail, used)))

    def _set_vring_enable(self, payload: bytes) -> None:
        """Start a queue, then send latched MSI-X vectors; or stop the queue."""
        index, enable = VRING_STATE.unpack(payload)
        if enable:
            self._queues.start(index)
            self._vectors.send_pending()
        else:
            self._queues.stop(index)

    def _kick(self, payload: bytes) -> None:
        """Execute waiting accesses for the command queue.

        For any other queue send latched vectors.
        """
        index, _ = VRING_STATE.unpack(payload)
        if index == COMMANDS:
            self._run_commands()
        else:
            self._vectors.send_pending()

    def _run_commands(self) -> None:
        self._budget -= self._queues.run_commands(self._budget)

    def _guest_address(self, user: int) -> int:
        """Return the guest's address of an address in the front end's process.

        Raises :class:`VhostProtocolError` outside of the regions of SET_MEM_TABLE.
        """
        for start, size, guest in self._regions:
            if start <= user < start + size:
                return guest + user - start
        raise VhostProtocolError(f"a ring at {user:#x}, outside the memory")


_Handler = Callable[[VhostSession, bytes], bytes | None]
_Row = tuple[int, bool, _Handler | None]
"""Bytes of the payload, -1 if the handler checks; whether descriptors arrive with it."""

_UNKNOWN: Final[_Row] = (0, False, None)
_STATE: Final = VRING_STATE.size
_HANDLERS: Final[dict[int, _Row]] = {
    VhostRequest.GET_FEATURES: (0, False, VhostSession._get_features),
    VhostRequest.SET_FEATURES: (U64.size, False, VhostSession._set_features),
    VhostRequest.SET_OWNER: (0, False, VhostSession._set_owner),
    VhostRequest.SET_MEM_TABLE: (-1, True, VhostSession._set_mem_table),
    VhostRequest.GET_PROTOCOL_FEATURES: (0, False, VhostSession._get_protocol_features),
    VhostRequest.SET_PROTOCOL_FEATURES: (U64.size, False, VhostSession._set_protocol_features),
    VhostRequest.SET_BACKEND_REQ_FD: (0, True, VhostSession._set_backend_req_fd),
    VhostRequest.SET_VRING_NUM: (_STATE, False, VhostSession._set_vring_num),
    VhostRequest.SET_VRING_BASE: (_STATE, False, VhostSession._set_vring_base),
    VhostRequest.GET_VRING_BASE: (_STATE, False, VhostSession._get_vring_base),
    VhostRequest.SET_VRING_ADDR: (VRING_ADDR.size, False, VhostSession._set_vring_addr),
    VhostRequest.SET_VRING_ENABLE: (_STATE, False, VhostSession._set_vring_enable),
    VhostRequest.VRING_KICK: (_STATE, False, VhostSession._kick),
}
