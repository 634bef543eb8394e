"""Hostile guests: keys and work requests whose translation or signature is expensive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rig import MODEL

from attacks.guest import MIB, MILLION, Guest, key_fields, large_key
from attacks.watch import Watch, pattern
from emu.device.models.crypto import KeyImport, with_crypto
from emu.device.objects.memory.translations import MTT_READ, MTT_WRITE
from emu.driver.keys.by_command import dma_key, indirect_key
from emu.driver.keys.crypto import WIRE_SIGNATURE, CryptoKey, create_dek
from emu.driver.keys.signatures import CRC64, Crc, SignatureKey
from emu.driver.keys.umr import ANY_QPN, FAST_REG_MASK, OFFSET, PAGE_SIZE, umr
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from emu.driver.verbs.queue_pair import QueuePair
from layouts.enums.cmd import Op
from layouts.enums.mkey import AccessMode
from layouts.enums.wqe import Opcode
from layouts.rings.wqe import DATA, KLM, RADDR, REPEAT, REPEAT_BLOCK, REPEAT_ENTRY

GIB = 1 << 30
RIGHTS = MTT_READ | MTT_WRITE
WQES = 16
ROUNDS = 1000
PACKET = 4096
LIST = 1 << 16
"""Number of entries of the longest list of ranges."""


def _pair(guest: Guest, **options: Any) -> tuple[QueuePair, QueuePair]:
    one, two = guest.node.queue_pair(**options), guest.node.queue_pair()
    connect(one, two)
    return one, two


def _long_key(guest: Guest, pages: int) -> int:
    """Create a key over scattered pages."""
    fields = key_fields(guest.node, pages) | {"translations_octword_actual_size": pages // 2}
    sent = guest.submit(Op.CREATE_MKEY, guest.scattered(pages), **fields)
    guest.ring()
    return int(guest.collect(sent).mkey_index) << 8


def scattered(node: Node, size: int = 2048, depth: int = 4) -> int:
    """Create a key of ``size`` ranges of one byte, ``depth`` keys deep."""
    region = node.region(size)
    key, va = region.key, region.va
    for _ in range(depth):
        ranges = [(1, key, va + at) for at in range(size)]
        key, va = indirect_key(node, AccessMode.KLMS, ranges, size), 0
    return int(key)


def _post_all(guest: Guest, one: QueuePair, segments: list[bytes], opcode: Opcode) -> None:
    for _ in range(WQES):
        one.post(opcode, *segments, ring=False)
    one.ring()
    for _ in range(ROUNDS):  # some requests would take hours, spread over many rounds
        if not guest.watch.round(guest.function.run):
            return


@pattern("SEND of 16 segments of 2 GiB, over a million scattered pages")
def long_segments(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    one, two = _pair(guest, log_sq_size=10)
    key = _long_key(guest, MILLION - 64)
    for _ in range(WQES):
        two.post_recv((64, key, 0))
    yield
    _post_all(guest, one, [DATA.pack(0, key, 0)] * 16, Opcode.SEND)


@pattern("RDMA WRITE of 1 GiB from scattered pages")
def long_write(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    one, _ = _pair(guest)
    key, target = _long_key(guest, GIB >> 12), large_key(guest.node)
    yield
    one.write((target, 0), (GIB, key, 0))
    guest.node.settle()
    _good(one)


@pattern("RDMA WRITE of 1 GiB between large pages")
def plain_write(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    one, _ = _pair(guest)
    source, target = large_key(guest.node), large_key(guest.node)
    yield
    one.write((target, 0), (GIB, source, 0))
    guest.node.settle()
    _good(one)


@pattern("repeat blocks of empty entries")
def empty_entries(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    one, _ = _pair(guest)
    region = guest.node.region(4096)
    block = REPEAT.pack(1, REPEAT_BLOCK, 0xFFFFFFFF, 30)
    entries = [REPEAT_ENTRY.pack(0, 0, region.key, region.va)] * 29
    entries.append(REPEAT_ENTRY.pack(0, 1, region.key, region.va))
    raw = block + b"".join(entries)
    key = _list_key(guest, AccessMode.KLMS, raw, (1 << 32) - 1)
    yield
    _post_all(guest, one, [RADDR.pack(0, key), DATA.pack(1 << 30, key, 0)], Opcode.RDMA_WRITE)


@pattern("a list of 65,536 ranges of one byte, four deep")
def deep_lists(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    one, _ = _pair(guest)
    region = guest.node.region(MIB)
    key, size = region.key, 1
    va = region.va
    for _ in range(3):
        key = _list_key(guest, AccessMode.KLMS, KLM.pack(size, key, va) * LIST, size * LIST)
        va, size = 0, min(size * LIST, 1 << 30)
    yield
    _post_all(guest, one, [RADDR.pack(0, key), DATA.pack(1 << 20, key, 0)], Opcode.RDMA_WRITE)


@pattern("messages of 4 KiB between lists of single bytes, four deep")
def deep_messages(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    one, _ = _pair(guest)
    source, target = scattered(guest.node, PACKET), scattered(guest.node, PACKET)
    yield
    _post_all(guest, one, [RADDR.pack(0, target), DATA.pack(PACKET, source, 0)], Opcode.RDMA_WRITE)


@pattern("signed blocks of 4 KiB in lists of single bytes, three deep")
def deep_signatures(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    one, _ = _pair(guest)
    keys = [SignatureKey(guest.node), SignatureKey(guest.node)]
    for key in keys:
        ranges = [(PACKET, scattered(guest.node, PACKET, 3), 0)]
        key.configure(one, ranges, wire=Crc(block=PACKET, bfs=CRC64))
    source, target = (key.key for key in keys)
    yield
    _post_all(guest, one, [RADDR.pack(0, target), DATA.pack(PACKET, source, 0)], Opcode.RDMA_WRITE)


def _encrypting(guest: Guest, qp: QueuePair) -> tuple[int, int]:
    """Create a key of 1 MiB that is one data unit; return also the address of its last cells."""
    region = guest.node.region(MIB)
    key = CryptoKey(guest.node)
    key.encrypt(create_dek(guest.node, bytes(range(32))), WIRE_SIGNATURE, MIB)
    key.configure(qp, [(MIB, region.key, region.va)])
    return key.key, MIB - PACKET


def _each_byte(guest: Guest, ways: list[tuple[int, int, int]]) -> int:
    return int(indirect_key(guest.node, AccessMode.KLMS, ways, len(ways)))


def _segments(guest: Guest, listed: int, size: int, *, reads: bool) -> list[bytes]:
    """Return the segments of a WRITE that reads a key's bytes, or that writes them."""
    plain = guest.node.region(PACKET)
    if reads:
        return [RADDR.pack(plain.va, plain.key), DATA.pack(size, listed, 0)]
    return [RADDR.pack(0, listed), DATA.pack(size, plain.key, plain.va)]


def _encrypted(title: str, *, reads: bool, size: int) -> None:
    @pattern(f"{title} in a data unit of 1 MiB, {size} at a time")
    def encrypted(watch: Watch) -> Iterator[None]:
        guest = Guest(watch, model=with_crypto(MODEL, KeyImport.PLAINTEXT))
        one, _ = _pair(guest)
        key, start = _encrypting(guest, one)
        listed = _each_byte(guest, [(1, key, start + at) for at in range(size)])
        segments = _segments(guest, listed, size, reads=reads)
        yield
        _post_all(guest, one, segments, Opcode.RDMA_WRITE)


for _size in (PACKET, 256):
    _encrypted("ranges of one byte that are read", reads=True, size=_size)
    _encrypted("ranges of one byte that are written", reads=False, size=_size)


@pattern("data of single bytes into a data unit of 1 MiB")
def encrypted_bytes(watch: Watch) -> Iterator[None]:
    guest = Guest(watch, model=with_crypto(MODEL, KeyImport.PLAINTEXT))
    one, _ = _pair(guest)
    key, start = _encrypting(guest, one)
    source = scattered(guest.node, PACKET, 1)
    yield
    _post_all(guest, one, [RADDR.pack(start, key), DATA.pack(PACKET, source, 0)], Opcode.RDMA_WRITE)


def _last_bytes(size: int, *, reads: bool) -> None:
    done = "read" if reads else "written"

    @pattern(f"the last byte of a signed block of 4 KiB, {size} times, {done}")
    def last_bytes(watch: Watch) -> Iterator[None]:
        guest = Guest(watch)
        one, _ = _pair(guest)
        region = guest.node.region(2 * PACKET)
        key = SignatureKey(guest.node)
        key.configure(
            one, [(PACKET + 8, region.key, region.va)], mem=Crc(block=PACKET, bfs=CRC64),
            wire=Crc(block=PACKET, bfs=CRC64),
        )  # fmt: skip
        listed = _each_byte(guest, [(1, key.key, PACKET + 7)] * size)
        segments = _segments(guest, listed, size, reads=reads)
        yield
        _post_all(guest, one, segments, Opcode.RDMA_WRITE)


for _size in (PACKET, 256):
    _last_bytes(_size, reads=True)
    _last_bytes(_size, reads=False)


@pattern("a list of 65,536 repeat blocks")
def many_blocks(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    one, _ = _pair(guest)
    region = guest.node.region(4096)
    block = REPEAT.pack(16, REPEAT_BLOCK, 4, 1)
    raw = (block + REPEAT_ENTRY.pack(16, 16, region.key, region.va)) * (LIST // 2)
    key = _list_key(guest, AccessMode.KLMS, raw, 64 * (LIST // 2))
    yield
    _post_all(guest, one, [RADDR.pack(0, key), DATA.pack(1 << 20, key, 0)], Opcode.RDMA_WRITE)


def _list_key(guest: Guest, mode: AccessMode, raw: bytes, length: int) -> int:
    entry = {
        "pd": guest.node.pdn, "qpn": ANY_QPN, "access_mode_1_0": mode & 3,
        "access_mode_4_2": mode >> 2, "len": length, "lr": 1, "lw": 1, "rr": 1, "rw": 1,
        "translations_octword_size": len(raw) // 16,
    }  # fmt: skip
    answer = guest.driver.must(
        Op.CREATE_MKEY, memory_key_mkey_entry=entry, extra=raw,
        translations_octword_actual_size=len(raw) // 16,
    )  # fmt: skip
    return int(answer.mkey_index) << 8


@pattern("CRC64 over 15 MiB, in blocks of 512 bytes")
def signatures(watch: Watch) -> Iterator[None]:
    guest = Guest(watch, 128 * MIB)
    one, two = _pair(guest)
    size = 15 * MIB
    region, target = guest.node.region(size), guest.node.region(2 * size)
    key = SignatureKey(guest.node)
    key.configure(one, [(size, region.key, region.va)], wire=Crc(bfs=CRC64))
    two.post_recv(target.sge())
    yield
    one.send((size, key.key, 0))
    guest.node.settle()
    _good(one)


def _good(qp: QueuePair) -> None:
    """Check that the expensive requests have succeeded, so that their full cost is measured."""
    done = qp.cq.drain()
    if not done or any(entry.syndrome for entry in done):
        raise RuntimeError(f"not all good: {done}")


@pattern("UMRs that write the last entry of keys with room for 67 million")
def last_entry(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    qp = guest.node.queue_pair(log_sq_size=10)
    connect(qp, guest.node.queue_pair())
    octwords = 1 << 25
    context: dict[str, Any] = {
        "free": 1, "umr_en": 1, "len": 0, "translations_octword_size": octwords
    }  # fmt: skip
    xlt = (guest.driver.queue | RIGHTS).to_bytes(8, "big") * 8
    yield
    key = guest.driver.must(Op.CREATE_MKEY, **key_fields(guest.node, 0, **context)).mkey_index << 8
    context = {"len": 1 << 38, "log_page_size": 12, "lr": 1, "lw": 1, "rr": 1, "rw": 1}
    umr(qp, key, flags=OFFSET, mask=FAST_REG_MASK, xlt=xlt, offset=octwords - 4, umr_en=1,
        qpn=ANY_QPN, **context)  # fmt: skip
    guest.node.settle()
    qp.write((key, (1 << 38) - 64), (64, key, (1 << 38) - 64))
    guest.node.settle()


@pattern("UMRs of the largest list, by pointer, to the key of the driver")
def long_umrs(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    qp = guest.node.queue_pair(log_sq_size=10)
    connect(qp, guest.node.queue_pair())
    octwords = (1 << 16) - 4
    context = {"free": 1, "umr_en": 1, "translations_octword_size": octwords}
    key = guest.driver.must(Op.CREATE_MKEY, **key_fields(guest.node, 0, **context)).mkey_index << 8
    address = guest.memory.alloc(octwords * 16, 4096)
    pointer = (octwords * 16, dma_key(guest.node), address)
    yield
    for number in range(WQES):
        umr(qp, key, flags=OFFSET, mask=PAGE_SIZE, pointer=pointer, octwords=octwords,
            log_page_size=12 + number % 2, ring=False)  # fmt: skip
    qp.ring()
    guest.node.settle()


@pattern("KSM over KLM over scattered pages, 64 MiB in one request")
def nested(watch: Watch) -> Iterator[None]:
    guest = Guest(watch)
    one, _ = _pair(guest)
    pages = _long_key(guest, (64 * MIB) >> 12)
    klm = indirect_key(
        guest.node, AccessMode.KLMS, [(4096, pages, at << 12) for at in range(1 << 14)], 64 * MIB
    )
    yield
    _post_all(guest, one, [RADDR.pack(0, klm), DATA.pack(64 * MIB, klm, 0)], Opcode.RDMA_WRITE)
