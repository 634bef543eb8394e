"""Compressed completions: packets of one session share the common fields of their completions.

A session's title is the completion of its first packet. Each packet has a mini CQE of eight bytes:
its length, and by the queue's format hash, checksum, stride, flow tag or header types. A session of
``n`` packets takes ``n`` entries of the ring, whether all of them are written or not.

Basic layout: the title has the number of packets. The next entry has the mini CQEs of packets 0 to
7. The eighth entry after the title has those of 8 to 15, and so on. The other entries keep their
old contents.

Enhanced layout: the title is a plain completion. Blocks of up to seven packets follow it. Each
block is written into its first entry, and the validity byte, which counts the ring's laps, makes it
valid. The other entries of a block get the validity byte too. The entry of the next completion is
then always from the lap before.

No session wraps around the ring's end, where DPDK's vectorized receive functions would read on
(mlx5_rxtx_vec_sse.h: rxq_cq_decompress_v).

Source: core/en_rx.c: mlx5e_decompress_cqes_start, mlx5e_rx_cq_process_enhanced_cqe_comp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct
from typing import Final

from layouts.enums.cqe import CqeChecked, CqeFormat, CqeOpcode, MiniCqeFormat
from layouts.rings.cqe import CQE_BYTES, OP_OWN, cqe64
from layouts.rings.mini_cqe import PER_ARRAY

PACKET: Final = CqeOpcode.RESP_SEND << 4
"""op_own of an entry that can be in a session, without the owner bit."""
COMPRESSED: Final = CqeFormat.COMPRESSED << 2
VALIDITY: Final = OP_OWN - 1
"""Offset of validity_iteration_count, which is the signature in the basic layout."""

_AT: Final = {field.name: field.offset // 8 for field in cqe64.fields}
_HASH: Final = _AT["rss_hash_result"]
_HASH_TYPE: Final = _AT["rss_hash_type"]
_SUM: Final = _AT["check_sum"]
_KIND: Final = _AT["l4_l3_hdr_type"]
_COUNT: Final = _AT["byte_cnt"]
_TAG: Final = _AT["sop_drop_qpn"]
_CHECKED: Final = _AT["hds_ip_ext"]
_TIME: Final = _AT["timestamp_h"]
_INDEX: Final = _AT["wqe_counter"]
_PLACE: Final = Struct(">I12xH")
"""byte_cnt and wqe_counter, from byte_cnt on."""
_STRIDES_SHIFT: Final = 16
_TAGGED_COUNT: Final = 1 << 24
"""Limit of a byte_cnt beside a flow tag."""
_FOUR: Final = Struct(">I")


def is_packet(entry: bytes, op_own: int) -> bool:
    """Return whether an entry may be compressed: a received Ethernet packet without an error.

    A solicited, compressed or inline-data entry is none.
    """
    return op_own == PACKET and bool(entry[_CHECKED] & CqeChecked.L2)


def sessions(entries: Sequence[bytes], form: MiniCqeFormat, limit: int) -> Iterator[int]:
    """Yield the number of entries of each session, in their order; 1 for an entry alone.

    A session ends at ``limit`` entries, at a gap in wqe_counter, or where a shared field differs.
    With FTAG_STRIDX, a byte_cnt of 2**24 or more stays alone.
    """
    shared_of = _SHARED[form]
    count, shared, following = 0, b"", -1
    for entry in entries:
        own = shared_of(entry)
        byte_cnt, index = _PLACE.unpack_from(entry, _COUNT)
        is_next = index == following and count < limit and own == shared
        if form is MiniCqeFormat.FTAG_STRIDX and byte_cnt >= _TAGGED_COUNT:
            is_next, own = False, b""
        if count and not is_next:
            yield count
            count = 0
        count += 1
        shared, following = own, index + (byte_cnt >> _STRIDES_SHIFT or 1) & 0xFFFF
    if count:
        yield count


def _without_sum(entry: bytes) -> bytes:
    """Return the title's fields for all packets with a hash format: no checksum, count or time."""
    return entry[:_HASH] + entry[_HASH_TYPE:_SUM] + entry[_SUM + 2 : _COUNT] + entry[_TAG:_INDEX]


def _without_hash(entry: bytes) -> bytes:
    """Return the title's fields for all packets with a checksum format; drivers drop the hash."""
    return (
        entry[:_HASH] + entry[_HASH_TYPE + 1 : _SUM] + entry[_SUM + 2 : _COUNT]
        + entry[_TAG:_INDEX]
    )  # fmt: skip


def _without_tag(entry: bytes) -> bytes:
    """Return the title's fields for all packets with a flow tag format."""
    return (
        entry[:_HASH] + entry[_HASH_TYPE + 1 : _SUM] + entry[_SUM + 2 : _COUNT]
        + entry[_TAG : _TAG + 1]
    )  # fmt: skip


def _without_kind(entry: bytes) -> bytes:
    """Return the title's fields for all packets with a header type format."""
    return (
        entry[:_HASH] + entry[_HASH_TYPE + 1 : _SUM] + entry[_SUM + 2 : _KIND]
        + entry[_KIND + 1 : _COUNT] + entry[_TAG:_INDEX]
    )  # fmt: skip


_SHARED: Final[Mapping[MiniCqeFormat, Callable[[bytes], bytes]]] = {
    MiniCqeFormat.HASH: _without_sum,
    MiniCqeFormat.CSUM: _without_hash,
    MiniCqeFormat.FTAG_STRIDX: _without_tag,
    MiniCqeFormat.CSUM_STRIDX: _without_hash,
    MiniCqeFormat.L34H_STRIDX: _without_kind,
}


def _mini_hash(entry: bytes) -> bytes:
    return entry[_HASH:_HASH_TYPE] + entry[_COUNT:_TIME]


def _mini_sum(entry: bytes) -> bytes:
    return entry[_SUM : _SUM + 2] + b"\0\0" + entry[_COUNT:_TIME]


def _mini_sum_stride(entry: bytes) -> bytes:
    return entry[_SUM : _SUM + 2] + entry[_INDEX : _INDEX + 2] + entry[_COUNT:_TIME]


def _mini_tag(entry: bytes) -> bytes:
    return (
        entry[_TAG + 2 : _TAG + 4] + entry[_INDEX : _INDEX + 2] + entry[_TAG + 1 : _TAG + 2]
        + entry[_COUNT + 1 : _TIME]
    )  # fmt: skip


def _mini_kind(entry: bytes) -> bytes:
    return (
        entry[_KIND : _KIND + 1] + b"\0" + entry[_INDEX : _INDEX + 2] + entry[_COUNT:_TIME]
    )  # fmt: skip


_MINI: Final[Mapping[MiniCqeFormat, Callable[[bytes], bytes]]] = {
    MiniCqeFormat.HASH: _mini_hash,
    MiniCqeFormat.CSUM: _mini_sum,
    MiniCqeFormat.FTAG_STRIDX: _mini_tag,
    MiniCqeFormat.CSUM_STRIDX: _mini_sum_stride,
    MiniCqeFormat.L34H_STRIDX: _mini_kind,
}


def title(entry: bytes, count: int) -> bytes:
    """Return the session's first entry in the basic layout, with ``count`` in place of byte_cnt."""
    return entry[:_COUNT] + _FOUR.pack(count) + entry[_TIME:]


def arrays(entries: Sequence[bytes], form: MiniCqeFormat) -> Iterator[tuple[int, bytes]]:
    """Yield the mini CQE arrays of a basic session, each with its entry offset from the title.

    The first array has offset 1, the following ones 8, 16 and so on. Unused mini CQEs are 0.
    """
    mini = _MINI[form]
    for first in range(0, len(entries), PER_ARRAY):
        minis = b"".join(map(mini, entries[first : first + PER_ARRAY]))
        yield first or 1, minis.ljust(CQE_BYTES, b"\0")


def block(entries: Sequence[bytes], form: MiniCqeFormat) -> tuple[bytes, int]:
    """Return a block of up to seven packets in the enhanced layout: bytes and op_own.

    The bytes are those before VALIDITY; op_own lacks the owner bit.
    """
    minis = b"".join(map(_MINI[form], entries))
    return minis.ljust(VALIDITY, b"\0"), len(entries) - 1 << 4 | COMPRESSED
