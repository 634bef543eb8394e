"""Access by keys with block signatures or encryption: check, insert, strip, copy.

Source: PRM "Signature offload".

Outgoing data are read from the memory domain, checked there, and given the wire's signatures.
Received data take the opposite direction. Blocks are independent of each other, so any range of the
stream can be handled alone, for packets and retransmissions. An address is an offset from the key's
start in the wire's stream, whose length is ``wire_length``.

The first wrong signature is reported by a SIG_ERR completion and the transfer continues. The next
one is reported only after a UMR has set ``expected_sigerr_count`` again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from emu.device.engine.mr.access_error import SEGMENT_BYTES, TOO_FRAGMENTED, AccessError, Violation
from emu.device.engine.mr.block_signature import BlockSignature
from emu.device.engine.mr.crypto import CipherStream, Crypto
from emu.device.engine.mr.memory_stream import MemoryStream, Stream
from emu.device.engine.mr.signed_stream import (
    Inflow,
    SignatureState,
    SignedStream,
    to_data,
    to_stream,
)
from emu.device.objects.memory.dek import Dek
from emu.device.objects.memory.rights import REMOTE_ATOMIC, WRITES
from emu.device.objects.memory.views import Span, Views
from emu.device.rounds.budget import STEPS_PER_ACCESS
from emu.device.rounds.costs import LOG_SIGNED_BYTES_PER_STEP, STEPS_PER_CIPHER

if TYPE_CHECKING:
    from emu.device.objects.memory.mkey import Mkey
    from emu.device.state.hca import Hca
    from emu.device.state.tables import ObjectTables

MAX_BYTES = 16 << 10
"""Longest access in one call, in bytes: computing it blocks the rest of the device."""


class Signature(SignatureState):
    """Signatures of one key, and its encryption."""

    __slots__ = ("crypto",)

    def __init__(self, blocks: BlockSignature, crypto: Crypto | None = None) -> None:
        super().__init__(blocks)
        self.crypto = crypto
        """None for a key that does not encrypt."""

    def rearm(self) -> None:
        """Report the next error, even if one has been reported."""
        self.is_reported = False

    @property
    def encrypts(self) -> bool:
        """Whether the key's data are encrypted in memory or on the wire."""
        return self.crypto is not None

    @property
    def is_on_wire(self) -> bool:
        """Whether segments do not count the signatures of the wire's domain.

        For a key that encrypts they do (rdma-core's test_mlx5_crypto_signature_mkey sends one block
        of such a key to a buffer of that size).
        """
        return self.blocks.wire is not None and self.crypto is None

    def wire_length(self, length: int) -> int:
        """Return the bytes on the wire for ``length`` bytes of the memory domain."""
        return to_stream(self.blocks.wire, to_data(self.blocks.mem, length))

    def views(
        self, hca: Hca, mkey: Mkey, qpn: int, span: Span, depth: int, step_limit: int | None = None
    ) -> Views:
        """Return a span of the wire's stream: a computed copy to read, or a sink for writes.

        Raises AccessError for the key's ranges, for atomics, and where the block around a short
        span is too scattered; TOO_FRAGMENTED for a span that is too long, or takes more steps than
        ``access`` would.
        """
        va, length, need = span
        if need & REMOTE_ATOMIC or (self.crypto is not None and not _exists(hca, self.crypto)):
            raise AccessError(Violation.RIGHTS, mkey.key, va, length)
        if length > MAX_BYTES:
            raise AccessError(TOO_FRAGMENTED, mkey.key, va, length, MAX_BYTES)
        hca.budget.charge(self._steps(va - mkey.start, length))
        limit = hca.budget.steps + STEPS_PER_ACCESS if step_limit is None else step_limit
        memory = MemoryStream(hca, mkey, need, depth, limit)
        stream = self._stream(hca, mkey, qpn, need, memory)
        at = va - mkey.start
        try:
            if not need & WRITES:
                return [memoryview(stream.outgoing(at, length))]
            stream.touch(at, length)
        except AccessError as error:
            is_final = step_limit is not None or length > SEGMENT_BYTES
            if is_final or error.violation is not TOO_FRAGMENTED:
                raise
            # All of a block is read, however little of it is moved. Drivers' blocks are in pages.
            raise AccessError(Violation.TRANSLATION, mkey.key, va, length) from None
        memory.unlimited()
        # Inflow supports slices and slice assignment, which is all that callers use.
        return [cast(memoryview, Inflow(stream, at, length))]

    def _steps(self, at: int, length: int) -> int:
        """Return the cost in steps of computing a range of the wire's stream.

        Blocks are computed from their beginning on, and a cipher from its data unit's.
        """
        before = 0
        for domain in (self.blocks.mem, self.blocks.wire):
            if domain is not None:
                before = max(before, at % (domain.block + domain.size))
        steps = before + length >> LOG_SIGNED_BYTES_PER_STEP
        return steps if self.crypto is None else steps + STEPS_PER_CIPHER

    def _stream(self, hca: Hca, mkey: Mkey, qpn: int, need: int, memory: MemoryStream) -> Stream:
        """Return the stream of the wire's bytes over ``memory``: signed, encrypted, or both."""
        blocks, crypto = self.blocks, self.crypto
        if crypto is None:
            return SignedStream(hca, mkey, self, qpn, need, memory)

        def refuse(at: int) -> AccessError:
            return AccessError(Violation.TRANSLATION, mkey.key, mkey.start + at, 0)

        length = mkey.length
        if blocks.mem is None and blocks.wire is None:
            return CipherStream(memory, crypto, length, refuse, reads_back=True)
        if crypto.is_next_to_memory:
            ciphered = CipherStream(memory, crypto, length, refuse, reads_back=True)
            return SignedStream(hca, mkey, self, qpn, need, ciphered)
        signed = SignedStream(hca, mkey, self, qpn, need, memory)
        return CipherStream(signed, crypto, self.wire_length(length), refuse, reads_back=False)


def _exists(tables: ObjectTables, crypto: Crypto) -> bool:
    return tables.objects[Dek].get(crypto.dek.handle) is crypto.dek
