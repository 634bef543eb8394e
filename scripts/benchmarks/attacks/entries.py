"""Hostile software-owned flow tables: entries in circles, long paths, and nonsense."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from attacks.switches import Manager
from attacks.watch import Watch, WatchedBar, pattern
from emu.device.models import LINKS
from emu.device.models.software_steering import with_software_steering
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address
from emu.device.objects.memory.sw_icm import HEADER_MODIFY, STE_BYTES, STEERING, SwIcm
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import UDP, EthPacket
from emu.driver.ethernet.steering_entries import Icm, SoftwareTables, entry
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.enums.general_object import GeneralObject

FLOWS = 2000
REQUESTS = 512
"""Number of frames by one doorbell."""
CHAIN = 4096
FIVE_TUPLE, INSIDE = 0x0007, 0x0008
FDB = FlowTableType.FDB
_DROP = icm_address(IcmKind.FDB_TX_DROP)
_HALF = 1 << 29
_WRITE_BYTES = 2 << 20
_LISTED = b"\x07\x0e\x28\x08\0\0\0\xff"
"""Action that adds to the time to live."""


class Author(Manager):
    """Manager of a switch that writes the tables of its FDB itself."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch, with_software_steering(LINKS["connectx6dx"][PortType.ETH]), 12)
        self.tables = SoftwareTables(self.node)
        self.tables.write(HEADER_MODIFY.start, _LISTED * 255, HEADER_MODIFY)

    def begin_at(self, root: int) -> None:
        """Make an entry the root for all packets."""
        Flows(self.node.driver, FDB).set_root(self.tables.table(root, FDB, root))

    def send(self, frames: list[bytes]) -> Iterator[None]:
        """Send these frames by one doorbell, inside a pattern."""
        for frame in frames:
            self.sq.send(frame, ring=False, flags=0)
        yield
        self.sq.ring_doorbell()
        self.loop.run()


def new_flows(count: int = REQUESTS) -> list[bytes]:
    """Return frames of which no two have the same flow."""
    return [EthPacket(source=number.to_bytes(4, "big")).frame() for number in range(count)]


def _chain(author: Author, made: Callable[[int, int], bytes], last: int) -> int:
    """Write a chain of entries and return its first address.

    ``made`` builds an entry from its number and the next one's address.
    """
    start = STEERING.start
    places = [start + STE_BYTES * number for number in range(CHAIN)]
    following = [*places[1:], last]
    author.tables.place(*(made(number, next_) for number, next_ in enumerate(following)))
    return start


@pattern(f"steering entries in a circle, {REQUESTS} new flows")
def circle(watch: Watch) -> Iterator[None]:
    author = Author(watch)
    author.tables.place(entry(hit=STEERING.start))
    author.begin_at(STEERING.start)
    yield from author.send(new_flows())


@pattern(f"a chain of {CHAIN} steering entries that compare, {REQUESTS} new flows")
def long_chain(watch: Watch) -> Iterator[None]:
    author = Author(watch)
    ones = b"\xff" * 16
    author.begin_at(
        _chain(author, lambda number, to: entry(FIVE_TUPLE, mask=ones, tag=ones, miss=to), _DROP)
    )
    yield from author.send(new_flows())


@pattern(f"a chain of steering entries with 255 actions each, {REQUESTS} new flows")
def many_actions(watch: Watch) -> Iterator[None]:
    author = Author(watch)
    listed = b"\x0f\xff\0\0"
    author.begin_at(_chain(author, lambda number, to: entry(hit=to, action=listed), _DROP))
    yield from author.send(new_flows())


@pattern(f"a chain of steering entries that push and pop tags, {REQUESTS} new flows")
def many_moves(watch: Watch) -> Iterator[None]:
    author = Author(watch)
    push, pop = b"\x0a\0\x0c\0\x81\0\0\5", b"\x08\x02\0\2"
    author.begin_at(
        _chain(author, lambda number, to: entry(hit=to, action=pop if number % 2 else push), _DROP)
    )
    yield from author.send(new_flows())


def _filled(watch: Watch) -> tuple[Author, Icm]:
    """Return a range of half a gibibyte, each page of which has been written."""
    author = Author(watch)
    author.node.driver.bar = WatchedBar(watch.unwatched(), watch.functions)
    icm = Icm(author.node, STEERING.start + _HALF, _HALF.bit_length() - 1)
    region = author.node.region(_WRITE_BYTES)
    for at in range(0, _HALF, _WRITE_BYTES):
        author.tables.qp.write((icm.index << 8, at), region.sge())
        author.node.settle()
        author.tables.qp.cq.drain()
    author.node.driver.bar = WatchedBar(watch, watch.functions)
    author.node.driver.must(Op.DESTROY_MKEY, mkey_index=icm.index)
    if author.node.hca.objects[SwIcm].need(icm.number).pages < _HALF >> 12:
        raise RuntimeError("pages are not written")
    return author, icm


@pattern("DESTROY_GENERAL_OBJECT of software ICM with 131072 written pages")
def written_pages(watch: Watch) -> Iterator[None]:
    author, icm = _filled(watch)
    yield
    author.node.driver.must(
        Op.DESTROY_GENERAL_OBJECT, op_mod=GeneralObject.SW_ICM, obj_id=icm.number
    )
    watch.settle(author.node.function)


@pattern("a reset of a function with software ICM of 131072 written pages")
def written_pages_reset(watch: Watch) -> Iterator[None]:
    author, _ = _filled(watch)
    yield
    watch.reset(author.node.function)


def _one_for_each(author: Author, size: int, made: Callable[[int], bytes], entries: int = 0) -> int:
    """Return the address of an entry that hashes a packet's flow to one of ``size`` entries.

    More entries are behind these, up to ``entries`` in all.
    """
    at = author.tables.place(*(made(number) for number in range(entries or size)))
    return author.tables.place(entry(hit=at, size=size, next_lookup=FIVE_TUPLE, byte_mask=0xFFFF))


@pattern(f"steering entries with 255 actions each, another one for most of {FLOWS} flows")
def decoded_once(watch: Watch) -> Iterator[None]:
    author = Author(watch)
    listed = entry(hit=_DROP, action=b"\x0f\xff\0\0")
    author.begin_at(_one_for_each(author, CHAIN, lambda number: listed))
    yield from author.send(new_flows(FLOWS))


@pattern(f"chains of 7 steering entries with 255 actions each, another one for each of {REQUESTS}")
def decoded_chains(watch: Watch) -> Iterator[None]:
    author, listed = Author(watch), b"\x0f\xff\0\0"

    def chained(number: int) -> bytes:
        to = STEERING.start + STE_BYTES * (number + 512)
        return entry(hit=to if number < CHAIN - 512 else _DROP, action=listed)

    author.begin_at(_one_for_each(author, 512, chained, CHAIN))
    yield from author.send(new_flows())


@pattern(f"a chain of {CHAIN} steering entries that compare what is in tunnels, {REQUESTS} flows")
def inside_tunnels(watch: Watch) -> Iterator[None]:
    author = Author(watch)
    ones = b"\xff" * 16
    author.begin_at(
        _chain(author, lambda number, to: entry(INSIDE, mask=ones, tag=ones, miss=to), _DROP)
    )
    header = bytes.fromhex("0800000000004200")
    yield from author.send(
        [EthPacket(protocol=UDP, ports=b"\0\1\x12\xb5", payload=header + inner).frame()
         for inner in new_flows()]
    )  # fmt: skip


@pattern(f"steering entries of nonsense, {REQUESTS} new flows")
def nonsense(watch: Watch) -> Iterator[None]:
    """Write random bytes behind valid formats, with addresses of other entries."""
    author, rng = Author(watch), random.Random(1)

    def made(number: int, to: int) -> bytes:
        body = bytearray(entry(hit=to, miss=to))
        for _ in range(rng.randrange(4)):
            body[rng.randrange(STE_BYTES)] = rng.randrange(256)
        return bytes(body)

    author.begin_at(_chain(author, made, STEERING.start))
    yield from author.send(new_flows())
