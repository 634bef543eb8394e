"""One access to a key with block signatures: the wire's stream, read from or written to memory.

Outgoing data are read from the memory domain, checked there, and given the wire's signatures.
Received data take the opposite direction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from emu.device.engine.events import completions
from emu.device.engine.mr.block_signature import BlockSignature, Domain, Syndrome
from emu.device.engine.mr.memory_stream import Stream
from emu.device.objects.memory.rights import LOCAL_READ

if TYPE_CHECKING:
    from emu.device.objects.memory.mkey import Mkey
    from emu.device.state.hca import Hca

_WIRE: Final = 0
_MEMORY: Final = 1


class SignatureState:
    """Signatures of one key, and the progress of its current block."""

    __slots__ = ("arriving", "blocks", "is_reported")

    def __init__(self, blocks: BlockSignature) -> None:
        self.blocks = blocks
        self.is_reported = False
        """Whether an error has been reported; later ones are not reported."""
        self.arriving = bytearray(8)
        """Received bytes of the current block's signature in the wire's domain."""


class SignedStream:
    """One access to a key with signatures, over the bytes of the memory domain."""

    __slots__ = ("_below", "_blocks", "_hca", "_key", "_mkey", "_need", "_qpn")

    def __init__(
        self, hca: Hca, mkey: Mkey, key: SignatureState, qpn: int, need: int, below: Stream
    ) -> None:
        self._hca, self._mkey, self._key, self._qpn = hca, mkey, key, qpn
        self._need, self._below = need, below
        self._blocks = key.blocks

    def _data(self, start: int, end: int) -> bytes:
        """Return the data bytes from ``start`` to ``end`` in memory, without their signatures."""
        mem = self._blocks.mem
        if mem is None:
            return self._below.outgoing(start, end - start)
        parts = []
        while start < end:
            stop = min((start // mem.block + 1) * mem.block, end)
            parts.append(self._below.outgoing(to_stream(mem, start), stop - start))
            start = stop
        return b"".join(parts)

    def _stored(self, index: int) -> int:
        """Return the signature that memory holds for a block of the memory domain."""
        mem = self._blocks.mem
        assert mem is not None
        return mem.decode(
            self._below.outgoing((index + 1) * (mem.block + mem.size) - mem.size, mem.size)
        )

    # -- sending

    def outgoing(self, at: int, length: int) -> bytes:
        """Return a range of the wire's stream from memory; check the blocks that end in it.

        A wrong signature is reported once by a SIG_ERR completion; the data are returned all the
        same. Raises AccessError.
        """
        blocks, wire = self._blocks, self._blocks.wire
        start, end = to_data(wire, at), to_data(wire, at + length)
        first = start if wire is None else at // (wire.block + wire.size) * wire.block
        base = first if blocks.mem is None else first // blocks.mem.block * blocks.mem.block
        data = self._data(base, end)
        if blocks.mem is not None:
            self._check_stored(blocks.mem, data, base, start)
        if wire is None:
            return data[start - base :]
        parts = []
        for begin in range(first, end, wire.block):
            block = data[begin - base : begin - base + wire.block]
            parts.append(block)
            if len(block) == wire.block:
                parts.append(self._outgoing_signature(wire, block, begin // wire.block))
        skip = at - to_stream(wire, first)
        return b"".join(parts)[skip : skip + length]

    def _check_stored(self, mem: Domain, data: bytes, base: int, after: int) -> None:
        """Check the memory domain's whole blocks that end after ``after``; report a wrong one.

        ``data`` begin at offset ``base``, a block's start.
        """
        for begin in range(0, len(data) - mem.block + 1, mem.block):
            if base + begin + mem.block > after:
                index = (base + begin) // mem.block
                self._check(mem, _MEMORY, data[begin : begin + mem.block], index)

    def _outgoing_signature(self, wire: Domain, block: bytes, index: int) -> bytes:
        """Return the wire's signature of a block, with the bytes copied from memory's signature."""
        value = wire.sign(block, index)
        if self._blocks.copy_mask:
            value = self._blocks.merge(value, self._stored(index))
        return wire.encode(value)

    def _check(
        self, domain: Domain, side: int, block: bytes, index: int, actual: int | None = None
    ) -> None:
        """Compare a block's signature with the computed one; report the first wrong one of the key.

        Do nothing where the BSF checks no bytes. ``actual`` None takes the signature in memory.
        """
        if not self._blocks.check_mask:
            return
        actual = self._stored(index) if actual is None else actual
        computed = domain.sign(block, index)
        wrong = domain.compare(actual, computed, self._blocks.check_mask)
        if wrong and not self._key.is_reported:
            self._key.is_reported = True
            values = actual, computed, index * (domain.block + domain.size)
            _report(self._hca, self._mkey, self._qpn, self._need, wrong, side, values)

    # -- receiving

    def touch(self, at: int, length: int) -> None:
        """Translate all memory that writing a range of the wire's stream needs, without writing.

        Raises AccessError.
        """
        mem, wire = self._blocks.mem, self._blocks.wire
        # Completing a block reads it again from its beginning.
        start = at if wire is None else at // (wire.block + wire.size) * wire.block
        if mem is not None:
            start = to_stream(mem, start - start % mem.block)
        end = to_stream(mem, to_data(wire, at + length))
        self._below.touch(start, max(end - start, 0))

    def incoming(self, at: int, data: memoryview) -> None:
        """Write a range of the wire's stream to memory, without its signatures.

        A block's complete signature is checked, and its copied bytes are stored. A signature's
        beginning is kept with the key until the rest arrives.
        """
        wire = self._blocks.wire
        if wire is None:
            self._store(at, data)
            return
        while len(data):
            index, within = divmod(at, wire.block + wire.size)
            if within < wire.block:
                piece = data[: wire.block - within]
                self._store(index * wire.block + within, piece)
            else:
                within -= wire.block
                piece = data[: wire.size - within]
                self._key.arriving[within : within + len(piece)] = piece
                if within + len(piece) == wire.size:
                    self._arrived(wire, index)
            at += len(piece)
            data = data[len(piece) :]

    def _store(self, start: int, data: memoryview) -> None:
        """Write data to memory; write a computed signature behind each block that it completes.

        With copied bytes, ``_arrived`` writes the signature instead.
        """
        mem = self._blocks.mem
        while len(data):
            piece = data if mem is None else data[: mem.block - start % mem.block]
            self._below.incoming(to_stream(mem, start), piece)
            start += len(piece)
            data = data[len(piece) :]
            if mem is not None and start % mem.block == 0 and not self._blocks.copy_mask:
                index = start // mem.block - 1
                self._sign(mem, index, mem.sign(self._block(mem, index), index))

    def _block(self, domain: Domain, index: int) -> bytes:
        return self._data(index * domain.block, (index + 1) * domain.block)

    def _sign(self, mem: Domain, index: int, value: int) -> None:
        at = (index + 1) * (mem.block + mem.size) - mem.size
        self._below.incoming(at, memoryview(mem.encode(value)))

    def _arrived(self, wire: Domain, index: int) -> None:
        """Check a complete received block; write a signature to memory if bytes are copied."""
        arrived = wire.decode(self._key.arriving[: wire.size])
        block = self._block(wire, index)
        self._check(wire, _WIRE, block, index, arrived)
        mem = self._blocks.mem
        if mem is not None and self._blocks.copy_mask:
            self._sign(mem, index, self._blocks.merge(mem.sign(block, index), arrived))


class Inflow:
    """Slice of a stream that supports the slice assignment of a memoryview."""

    __slots__ = ("_at", "_length", "_stream")

    def __init__(self, stream: Stream, at: int, length: int) -> None:
        self._stream, self._at, self._length = stream, at, length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, span: slice) -> Inflow:
        start, stop, _ = span.indices(self._length)
        return Inflow(self._stream, self._at + start, max(stop - start, 0))

    def __setitem__(self, span: slice, data: memoryview) -> None:
        self._stream.incoming(self._at + span.indices(self._length)[0], data)


def to_data(domain: Domain | None, at: int) -> int:
    """Return the number of data bytes before offset ``at`` in a domain's stream."""
    if domain is None:
        return at
    index, within = divmod(at, domain.block + domain.size)
    return index * domain.block + min(within, domain.block)


def to_stream(domain: Domain | None, data: int) -> int:
    """Return the offset in a domain's stream of data byte number ``data``."""
    return data if domain is None else data + data // domain.block * domain.size


def _report(
    hca: Hca,
    mkey: Mkey,
    qpn: int,
    need: int,
    wrong: Syndrome,
    side: int,
    values: tuple[int, int, int],
) -> None:
    """Write a SIG_ERR completion to the queue pair's CQ for sends, or for receives.

    Do nothing for a queue pair that does not exist. With drain_sigerr the queue pair starts to
    drain and then moves to SQD.
    """
    qp = hca.qps.get(qpn)
    if qp is None:
        return
    cq = qp.scq if need == LOCAL_READ else qp.rcq
    if cq is not None:
        completions.report_signature(hca.cqes, cq, qp, mkey.key, wrong, side, values)
    if qp.drains_on_sigerr:
        qp.is_draining = True
        hca.scheduler.schedule(qp)
