"""Receive-side scaling: the flow hash by which an indirect TIR selects a queue.

The Toeplitz hash of Microsoft's RSS specification is an exclusive or over all set bits of the
input. Each set bit contributes the 32 key bits that begin at its position. A table for each byte of
the input reduces the work to one step per byte.

Source: PRM "Receive-side scaling"; core/en/tir.c (mlx5e_tir_builder_build_rss);
uapi/linux/ethtool.h (RXH_XFRM_SYM_OR_XOR).
"""

from __future__ import annotations

from functools import lru_cache, reduce
from operator import xor
from typing import ClassVar, Final

from emu.device.port.eth.headers import AH, ESP, TCP, UDP, Headers
from layouts.enums.cqe import CqeHashType
from layouts.enums.tir import HashField, L3ProtType, L4ProtType, RxHashFn

KEY_BYTES: Final = 40
INPUT_BYTES: Final = KEY_BYTES - 4
"""Bytes of the longest input: two IPv6 addresses and two ports."""

Tables = tuple[tuple[int, ...], ...]

_VERSION: Final = {L3ProtType.IPV4: 4, L3ProtType.IPV6: 6}
_PROTOCOL: Final = {L4ProtType.TCP: TCP, L4ProtType.UDP: UDP}
_SPI_AT: Final = {ESP: 0, AH: 4}
_L3_TYPE: Final = {4: CqeHashType.IPV4, 6: CqeHashType.IPV6}
_L4_TYPE: Final = {TCP: CqeHashType.L4_TCP, UDP: CqeHashType.L4_UDP}


@lru_cache(maxsize=16)
def tables(key: bytes) -> Tables:
    """Return, for each byte of the input, the hash contributions of its 256 values.

    Raises ValueError for a key that is not KEY_BYTES long. A driver uses one key for all its TIRs.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"Toeplitz key has {len(key)} bytes, must have {KEY_BYTES}")
    number, bits = int.from_bytes(key, "big"), KEY_BYTES * 8
    return tuple(
        _table([number >> bits - 32 - bit & 0xFFFFFFFF for bit in range(at, at + 8)])
        for at in range(0, INPUT_BYTES * 8, 8)
    )


def _table(windows: list[int]) -> tuple[int, ...]:
    """Return all 256 combinations of the key's windows at a byte's bits, first bit highest."""
    values = [0]
    for window in reversed(windows):
        values += [value ^ window for value in values]
    return tuple(values)


def toeplitz(table: Tables, data: bytes) -> int:
    """Return the 32-bit hash of at most INPUT_BYTES; further bytes are ignored."""
    value = 0
    for contributions, byte in zip(table, data):
        value ^= contributions[byte]
    return value


def inverted_xor8(data: bytes) -> int:
    """Return the XOR hash of the input (MLX5_RX_HASH_FN_INVERTED_XOR8)."""
    return reduce(xor, data, 0xFF)


class Hasher:
    """The hash of one TIR: its key, function and selected fields (rx_hash_field_select).

    Caches the hashes of at most ``CACHED`` flows. Raises ValueError for a Toeplitz key whose length
    is not KEY_BYTES.
    """

    CACHED: ClassVar[int] = 1024

    def __init__(
        self,
        function: RxHashFn,
        key: bytes,
        l3: L3ProtType,
        l4: L4ProtType,
        fields: HashField,
        symmetric: bool,
    ) -> None:
        toeplitz_tables = tables(key) if function is RxHashFn.TOEPLITZ else ()
        self._tables: Tables = toeplitz_tables
        self._symmetric = symmetric
        self._version = _VERSION[l3] if function is not RxHashFn.NONE else None
        self._protocol = _PROTOCOL[l4]
        source, destination = HashField.SRC_IP in fields, HashField.DST_IP in fields
        self._addresses = (source, destination)
        self._l3_type = int(_L3_TYPE[_VERSION[l3]]) if source or destination else 0
        source, destination = HashField.L4_SPORT in fields, HashField.L4_DPORT in fields
        self._ports = (source, destination)
        self._l4_type = int(_L4_TYPE[self._protocol]) if source or destination else 0
        self._spi = HashField.IPSEC_SPI in fields
        self._cache: dict[bytes | tuple[bytes, bytes], tuple[int, int]] = {}

    def __call__(self, headers: Headers) -> tuple[int, int]:
        """Return a packet's rss_hash_result and rss_hash_type (the fields that it covers).

        A packet whose IP version is not the selected one hashes to 0. A fragment, which has no
        ports, and a packet of another transport are hashed over the other selected fields.
        """
        version = self._version
        if headers.version != version:
            return 0, 0
        frame, at, l4 = headers.frame, headers.l3, headers.l4
        # Inlined, as this code runs for every packet.
        addresses = frame[at + 12 : at + 20] if version == 4 else frame[at + 8 : at + 40]
        ports = frame[l4 : l4 + 4] if l4 and headers.protocol == self._protocol else b""
        spi = _spi(headers) if self._spi else b""
        flow = (addresses, spi) if spi else addresses + ports
        value = self._cache.get(flow)
        if value is None:
            value = self._hash(addresses, ports, spi)
            if len(self._cache) >= self.CACHED:
                self._cache.clear()
            self._cache[flow] = value
        return value

    def _hash(self, addresses: bytes, ports: bytes, spi: bytes) -> tuple[int, int]:
        """Return the hash over the selected fields, in the order of their bits, and their type.

        (0, 0) if none of the selected fields exists.
        """
        data = _pick(addresses, *self._addresses, self._symmetric)
        data += _pick(ports, *self._ports, self._symmetric)
        kind = self._l3_type | (self._l4_type if ports else 0)
        if spi:
            data += spi
            kind |= CqeHashType.L4_IPSEC
        if not data:
            return 0, 0
        return toeplitz(self._tables, data) if self._tables else inverted_xor8(data), int(kind)


def _spi(headers: Headers) -> bytes:
    """Return the security parameters index of an ESP or AH packet; empty for other packets."""
    at = _SPI_AT.get(headers.protocol)
    if at is None or not headers.l4:
        return b""
    return headers.frame[headers.l4 + at : headers.l4 + at + 4]


def _pick(both: bytes, source: bool, destination: bool, symmetric: bool) -> bytes:
    """Return the selected halves of ``both``, which is a source followed by a destination.

    Symmetric means (source | destination, source ^ destination), so that both directions of a flow
    have the same hash. Symmetric hashing needs both halves.
    """
    half = len(both) // 2
    if not (source and destination):
        return (both[:half] if source else b"") + (both[half:] if destination else b"")
    if not symmetric:
        return both
    first, second = int.from_bytes(both[:half], "big"), int.from_bytes(both[half:], "big")
    return (first | second).to_bytes(half, "big") + (first ^ second).to_bytes(half, "big")
