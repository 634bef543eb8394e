"""Keys that encrypt: AES-XTS between the memory domain's stream and the wire's.

A key's stream is cut into data units, each with the next tweak. A cell is the unit of one
encryption: a block of 16 bytes, or the last block of a data unit with the bytes behind it. A
request has to begin and end at a cell boundary (mlx5dv_wr_set_mkey_crypto(3), "NOTES"); its packets
need not.

Source: rdma-core providers/mlx5/wqe.h (mlx5_crypto_bsf), qp.c (mlx5_umr_fill_crypto_bsf); DPDK
drivers/crypto/mlx5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from emu.device.engine.mr.block_signature import BLOCK_BYTES, BsfError
from emu.device.engine.mr.memory_stream import Stream
from emu.device.objects.memory.aes import BLOCK
from layouts.rings.wqe import crypto_bsf

if TYPE_CHECKING:
    from emu.device.objects.memory.dek import Dek

_AES_XTS: Final = 0
"""Value of enc_standard."""
_UNIT_BYTES: Final[Mapping[int, int]] = {**BLOCK_BYTES, 5: 1 << 20}
"""Data unit sizes in bytes by bs_pointer."""
_MAX_CACHED_BYTES: Final = 2 * BLOCK
_TWEAKS: Final = 1 << 128


class Order(IntEnum):
    """Encrypted side, and whether block signatures cover data before or after encryption."""

    WIRE_SIGNATURE = 0
    """The wire has ciphertext of data and signatures."""
    MEMORY_SIGNATURE = 1
    """Memory has ciphertext of data and signatures."""
    RAW_WIRE = 2
    """The wire has ciphertext, and signatures of the ciphertext."""
    RAW_MEMORY = 3
    """Memory has ciphertext, and signatures of the ciphertext."""


_ENCRYPTING: Final = frozenset({Order.WIRE_SIGNATURE, Order.RAW_WIRE})
_NEXT_TO_MEMORY: Final = frozenset({Order.MEMORY_SIGNATURE, Order.RAW_WIRE})

DekOf = Callable[[int], "Dek | None"]


class Crypto:
    """Encryption parameters of one key, and the beginning of the cell that is arriving."""

    __slots__ = ("arriving", "dek", "encrypts", "is_next_to_memory", "tweak", "unit")

    def __init__(self, dek: Dek, order: Order, unit: int, tweak: int) -> None:
        self.dek = dek
        self.encrypts = order in _ENCRYPTING
        """Whether data to the wire are encrypted; otherwise they are decrypted."""
        self.is_next_to_memory = order in _NEXT_TO_MEMORY
        """Whether encryption is on memory's side of the signatures."""
        self.unit = unit
        """Bytes of a data unit."""
        self.tweak = tweak
        """Tweak of the first data unit."""
        self.arriving = bytearray(_MAX_CACHED_BYTES)

    @classmethod
    def parse(cls, raw: bytes, dek_of: DekOf, *, is_big_endian: bool) -> Crypto:
        """Parse a crypto BSF; ``dek_of`` finds the encryption keys (DEKs) of the key's domain.

        Raises BsfError unless enc_standard is AES-XTS and bs_pointer and enc_order are supported.
        Raises BsfError also for an unknown DEK or a DEK with another keytag.
        """
        view = crypto_bsf.view(raw)
        if view.enc_standard != _AES_XTS:
            raise BsfError(f"enc_standard {view.enc_standard} is not supported")
        if view.bs_pointer not in _UNIT_BYTES:
            raise BsfError(f"bs_pointer {view.bs_pointer} is not supported")
        if view.enc_order not in Order._value2member_map_:
            raise BsfError(f"enc_order {view.enc_order} is not supported")
        number = view.rsvd_dek_ptr & 0xFFFFFF
        dek = dek_of(number)
        if dek is None or (dek.keytag and dek.keytag != view.keytag):
            raise BsfError(f"no encryption key {number:#x} with this keytag in the domain")
        tweak = int.from_bytes(view.xts_init_tweak, "big" if is_big_endian else "little")
        return cls(dek, Order(view.enc_order), _UNIT_BYTES[view.bs_pointer], tweak)

    def cell(self, at: int) -> tuple[int, int]:
        """Return start and end of the cell with byte ``at`` of the stream.

        The last cell of a data unit that is no multiple of 16 bytes has up to 31 bytes.
        """
        first = at // self.unit * self.unit
        last = first + (self.unit // BLOCK - 1) * BLOCK if self.unit % BLOCK else first + self.unit
        start = first + (at - first) // BLOCK * BLOCK
        return (last, first + self.unit) if start >= last else (start, start + BLOCK)

    def apply(self, at: int, data: bytes, *, encrypts: bool) -> bytes:
        """Return whole cells of the stream, from offset ``at`` on, encrypted or decrypted."""
        return b"".join(
            self.dek.xts.apply(part, tweak, block, encrypts=encrypts)
            for part, tweak, block in self._in_units(at, data)
        )

    def _in_units(self, at: int, data: bytes) -> Iterator[tuple[bytes, int, int]]:
        """Yield the cells by data unit: bytes, tweak, index of their first block in the unit."""
        done = 0
        while done < len(data):
            index, within = divmod(at + done, self.unit)
            part = data[done : done + self.unit - within]
            yield part, (self.tweak + index) % _TWEAKS, within // BLOCK
            done += len(part)


class CipherStream:
    """Stream on the wire's side of a key's encryption, over the one on memory's side."""

    __slots__ = ("_below", "_crypto", "_length", "_reads_back", "_refuse")

    def __init__(
        self,
        below: Stream,
        crypto: Crypto,
        length: int,
        refuse: Callable[[int], Exception],
        *,
        reads_back: bool,
    ) -> None:
        """Wrap ``below``, a stream of ``length`` bytes; ``refuse`` makes the error for a cell
        beyond it.

        A partial cell is written at once if the rest of the cell can be read back. Otherwise the
        key keeps it.
        """
        self._below, self._crypto, self._length = below, crypto, length
        self._refuse, self._reads_back = refuse, reads_back

    def _cells(self, at: int, length: int) -> tuple[int, int]:
        """Return start and end of the cells that a range touches.

        Raises the error of ``refuse`` (an AccessError) when they exceed the stream.
        """
        start, end = self._crypto.cell(at)[0], self._crypto.cell(at + length - 1)[1]
        if end > self._length:
            raise self._refuse(at)
        return start, end

    def outgoing(self, at: int, length: int) -> bytes:
        """Return a range of the wire's bytes: encrypted or decrypted from the memory side's stream.

        Whole cells are read. Raises AccessError, also for cells beyond the stream.
        """
        if not length:
            return b""
        start, end = self._cells(at, length)
        data = self._below.outgoing(start, end - start)
        made = self._crypto.apply(start, data, encrypts=self._crypto.encrypts)
        return made[at - start : at - start + length]

    def touch(self, at: int, length: int) -> None:
        """Translate all memory that a range needs, without writing. Raise AccessError."""
        if length:
            start, end = self._cells(at, length)
            self._below.touch(start, end - start)

    def incoming(self, at: int, data: memoryview) -> None:
        """Write a range that has been touched, encrypted or decrypted to the memory side's stream.

        The rest of a partial cell is read back. Where that is impossible, the partial cell is kept
        until its end arrives.
        """
        start, end = self._cells(at, len(data))
        is_whole = (start, end) == (at, at + len(data))
        if is_whole:
            self._put(start, bytes(data))
        elif self._reads_back:
            cells = bytearray(self.outgoing(start, end - start))
            cells[at - start : at - start + len(data)] = data
            self._put(start, bytes(cells))
        else:
            self._collect(at, data)

    def _put(self, start: int, cells: bytes) -> None:
        """Encrypt or decrypt whole cells and write them to the memory side's stream."""
        made = self._crypto.apply(start, cells, encrypts=not self._crypto.encrypts)
        self._below.incoming(start, memoryview(made))

    def _collect(self, at: int, data: memoryview) -> None:
        """Write the whole cells among the data; keep the beginning of an incomplete cell."""
        arriving = self._crypto.arriving
        while len(data):
            start, end = self._crypto.cell(at)
            if at == start and len(data) >= end - start:
                last = self._crypto.cell(at + len(data) - 1)
                end = last[1] if last[1] <= at + len(data) else last[0]
                self._put(start, bytes(data[: end - at]))
            else:
                piece = data[: end - at]
                arriving[at - start : at - start + len(piece)] = piece
                if at + len(piece) == end:
                    self._put(start, bytes(arriving[: end - start]))
                end = at + len(piece)
            data, at = data[end - at :], end
