"""Every translation against a plain model, byte by byte: starts anywhere, keys over keys, holes.

The model knows for each byte of each key where it is (``helpers.models.plain_keys``). The device
has to find the same bytes, and to refuse what the model does not have.
"""

import random
import struct

import pytest
from helpers.models.plain_keys import BOTH, PAGE, READ, blocks, implicit, listed, paged, update
from helpers.random.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.device.engine.mr import checksums as guards
from emu.device.engine.mr.access import access
from emu.device.engine.mr.access_error import AccessError
from emu.device.engine.mr.special_keys import NULL_MKEY
from emu.device.function.function import Function
from emu.device.models import MODELS
from emu.device.objects.memory.rights import LOCAL_READ, LOCAL_WRITE
from emu.device.objects.memory.views import copy
from emu.device.state.hca import HcaOptions
from emu.driver.command.bar import FunctionBar
from emu.driver.command.driver import Driver
from emu.driver.command.words import pack64
from emu.driver.keys.signatures import CRC64, Crc, Dif, SignatureKey
from emu.driver.keys.umr import START, FastRegKey, umr
from emu.driver.verbs.connect import connect
from emu.driver.verbs.node import Node
from emu.driver.verbs.outcomes import good
from emu.driver.world.clock import HandClock
from emu.driver.world.interrupts import IrqList
from emu.driver.world.memory import Memory
from emu.server.net.ib.local import LocalFabric
from firmware_cmds import TABLE
from layouts.enums.mkey import AccessMode
from layouts.rings.wqe import KLM

ANY_QPN = 0xFFFFFF
STARTS = st.one_of(
    st.integers(0, 3 * PAGE),
    st.sampled_from([0x7F5C_8000_0000, 0x7F5C_8000_0780, (1 << 63) - 5, (1 << 64) - 4 * PAGE]),
)
ABSENT = st.sampled_from([0, NULL_MKEY, 0xABCD00])
MOST = 600
"""Bytes of a key over keys: the model has a place for each."""


def fresh(size=2 << 20):
    memory, clock, irqs = Memory(size), HandClock(), IrqList()
    wire, options = LocalFabric(clock), HcaOptions(guid=1)
    function = Function(MODELS["connectx6"], options, TABLE, memory, irqs, clock, wire)
    return Node(function, Driver(FunctionBar(function), memory, irqs).probe())


@st.composite
def ranges(draw, keys, most=200):
    """A range of some key: most often one that is there."""
    below = draw(st.sampled_from(keys))
    size = len(below.readable)
    at = draw(st.integers(0, size - 1))
    length = draw(st.integers(0, min(most, size - at + draw(st.sampled_from([0, 0, 0, 3])))))
    return below, below.start + at, length


@st.composite
def paged_keys(draw, node):
    rights = draw(st.lists(st.sampled_from([BOTH, BOTH, BOTH, READ, 0]), min_size=1, max_size=4))
    start = draw(STARTS)
    log_size = draw(st.sampled_from([12, 12, 13]))
    covered = (len(rights) << log_size) - start % (1 << log_size)
    length = draw(st.integers(1, min(covered + draw(st.sampled_from([0, 5])), (1 << 64) - start)))
    return paged(node, start, length, rights, log_size)


@st.composite
def keys_over(draw, node, keys):
    """A key over some of these."""
    start = draw(STARTS)
    if draw(st.booleans()):
        log_size = draw(st.integers(0, 8))
        parts = [
            (below, va) if draw(st.integers(0, 9)) else (None, draw(ABSENT))
            for below, va, _ in draw(st.lists(ranges(keys), min_size=1, max_size=5))
        ]
        length = draw(st.integers(1, min((len(parts) << log_size) + 2, MOST)))
        return blocks(node, start, log_size, parts, length)
    parts = draw(st.lists(ranges(keys), max_size=4))
    if draw(st.booleans()):
        cycle = [
            (below, va, length % 9, draw(st.integers(0, 5)))
            for below, va, length in draw(st.lists(ranges(keys), min_size=1, max_size=3))
        ]
        if any(row[2] for row in cycle):
            parts.insert(draw(st.integers(0, len(parts))), (draw(st.integers(1, 6)), cycle))
    return listed(node, start, [part for part in parts if len(part) == 2 or part[2]])


def found(node, key, va, length, need):
    """The device's answer: views, or None for a refusal."""
    pd = node.hca.pds.get(node.pdn)
    try:
        return access(node.hca, pd, ANY_QPN, key.key, (va, length, need))
    except AccessError:
        return None


def check(data, node, key):
    """Some range of a key, read and then written, against the model."""
    size = len(key.readable)
    at = data.draw(st.integers(-2, size))
    length = data.draw(st.integers(1, max(size - at, 1) + 2))
    va = max(key.start + at, 0)
    length = min(length, (1 << 64) - va)
    if not length:
        return
    ram = node.memory.ram
    base = node.memory.base
    places = key.places(va, length)
    views = found(node, key, va, length, LOCAL_READ)
    assert (views is None) == (places is None)
    if places is not None:
        assert b"".join(views) == bytes(ram[place - base] for place in places)
    places = key.places(va, length, write=True)
    views = found(node, key, va, length, LOCAL_WRITE)
    assert (views is None) == (places is None)
    if places is not None:
        text, expected = random.Random(length).randbytes(length), bytearray(ram)
        for place, byte in zip(places, text, strict=True):
            expected[place - base] = byte
        copy(views, (memoryview(text),))
        assert ram == expected


@settings(max_examples=examples(150))
@given(data=st.data())
def test_trees_of_keys(data):
    node = fresh()
    keys = [data.draw(paged_keys(node)) for _ in range(data.draw(st.integers(1, 3)))]
    for key in keys:
        for place in filter(None, key.readable):
            node.memory.ram[place - node.memory.base] = place * 151 >> 3 & 0xFF
    for _ in range(data.draw(st.integers(1, 3))):
        over = data.draw(keys_over(node, keys))
        if over.readable:
            keys.append(over)
    for key in keys:
        for _ in range(3):
            check(data, node, key)


# Implicit keys: children that come and go, over pages that come and go.

NULL_OF_ITS_OWN = {"log_page_size": 61, "length64": 1}
"""The memory scheme's null key: one page that is never present (hw/odp.c)."""


def waits_for(node, key, span):
    """The fault that a driver is told of: key, address and what is still needed."""
    pd = node.hca.pds.get(node.pdn)
    with pytest.raises(AccessError, match="absent_page") as seen:
        access(node.hca, pd, ANY_QPN, key.key, span)
    return seen.value.key, seen.value.va, seen.value.length


@pytest.mark.parametrize("scheme", ["transport", "memory"])
@settings(max_examples=examples(40))
@given(data=st.data())
def test_implicit_keys(scheme, data):
    """What is there is found; what is not is a fault of the implicit key at that very byte."""
    node = fresh()
    pages = data.draw(st.sampled_from([1, 2]))
    rights = st.lists(st.sampled_from([BOTH, BOTH, READ, 0]), min_size=pages, max_size=pages)
    size = pages * PAGE
    null = NULL_MKEY, 0
    if scheme == "memory":
        null = paged(node, 0, 0, [0], **NULL_OF_ITS_OWN).key, 0
    start = data.draw(STARTS.filter(lambda start: start + 4 * size < 1 << 64))
    first = data.draw(st.sampled_from([0, 0x7F5C_8000_0000]))
    children = [
        paged(node, first + number * size, size, data.draw(rights)) if is_there else None
        for number, is_there in enumerate(
            data.draw(st.lists(st.booleans(), min_size=1, max_size=4))
        )
    ]
    key = implicit(node, start, size.bit_length() - 1, children, null)
    over = listed(node, 5, [(key, start + 100, size - 200)])
    for child in filter(None, children):
        for place in filter(None, child.readable):
            node.memory.ram[place - node.memory.base] = place * 151 >> 3 & 0xFF
    for _ in range(6):
        check(data, node, key)
        check(data, node, over)
        at = data.draw(st.integers(0, len(key.readable) - 1))
        length = data.draw(st.integers(1, min(2 * PAGE, len(key.readable) - at)))
        for need, write in ((LOCAL_READ, False), (LOCAL_WRITE, True)):
            if key.places(start + at, length, write=write) is None:
                expected = key.key, *key.absent(start + at, length, write=write)
                assert waits_for(node, key, (start + at, length, need)) == expected


# Lists that UMRs have written, here and there.

ROOM = 40
"""Entries of a key: five times what a UMR writes, and more than fits a round number of them."""


class Updated:
    """A key with room, what a UMR has put there, and what each entry should lead to."""

    def __init__(self, node, mode, pages):
        self.node, self.mode, self.pages = node, mode, pages
        self.below = node.region(len(pages) * PAGE, va=0x7000_0000_0000)
        self.below_pages = self.below.pages
        self.key = FastRegKey(node, entries=ROOM, mode=mode)
        self.entries = []
        self.start = 0

    @property
    def step(self):
        """Entries of 64 bytes, which a UMR writes at least."""
        return 8 if self.mode == AccessMode.MTT else 4

    def entry(self, number):
        """The bytes of an entry that leads to a page, or to none."""
        if self.mode == AccessMode.MTT:
            return pack64([0 if number is None else self.below_pages[number] | 3])
        if number is None:
            return bytes(16)
        size = PAGE if self.mode == AccessMode.KLMS else 0
        return KLM.pack(size, self.below.key, self.below.va + number * PAGE)

    def enable(self, qp, start):
        """Registers it empty."""
        self.start = start
        self.key.register(qp, [], start, ROOM * PAGE, variant=1)

    def write(self, qp, index, numbers):
        size = 8 if self.mode == AccessMode.MTT else 16
        update(qp, self.key.key, index * size // 16, b"".join(map(self.entry, numbers)))
        self.entries += [None] * (index - len(self.entries))
        self.entries[index : index + len(numbers)] = numbers

    def place(self, at):
        """Where the byte ``at`` bytes behind the start is."""
        entries = self.entries
        if self.mode == AccessMode.KLMS:  # an entry that leads nowhere has no length
            entries = [number for number in entries if number is not None]
        if self.mode == AccessMode.MTT:
            at += self.start % PAGE
        number = entries[at // PAGE] if at // PAGE < len(entries) else None
        return None if number is None else self.below_pages[number] + at % PAGE


def check_all(node, one):
    """Some bytes of every page, and over its end."""
    ram, base = node.memory.ram, node.memory.base
    for at in [page * PAGE + within for page in range(ROOM) for within in (0, 77, PAGE - 10)][:-1]:
        places = [one.place(byte) for byte in range(at, at + 20)]
        views = found(node, one.key, one.start + at, 20, LOCAL_READ)
        assert (views is None) == (None in places)
        if views is not None:
            assert b"".join(views) == bytes(ram[place - base] for place in places)


@pytest.mark.parametrize("mode", [AccessMode.MTT, AccessMode.KLMS, AccessMode.KSM])
@pytest.mark.parametrize("is_used", [False, True], ids=["at the end", "after each"])
@settings(max_examples=examples(40))
@given(data=st.data())
def test_updates_that_leave_holes(mode, is_used, data):
    """What is there is found and nothing else is, whether the key is used in between or not."""
    node = fresh()
    pair = node.queue_pair(), node.queue_pair()
    connect(*pair)
    one = Updated(node, mode, range(6))
    one.below.write(random.Random(2).randbytes(one.below.size))
    one.enable(pair[0], data.draw(st.sampled_from([0, PAGE, 5, 0x780, PAGE - 1])))
    slots = st.integers(0, (ROOM - 1) // one.step)
    for slot in data.draw(st.lists(slots, min_size=1, max_size=5)):
        index, blocks = slot * one.step, data.draw(st.integers(1, 2))
        rng = random.Random(data.draw(st.integers(0, 99)))
        count = min(blocks * one.step, ROOM - index)
        one.write(pair[0], index, [rng.choice([None, *range(6)]) for _ in range(count)])
        node.settle()
        good(pair[0])
        if is_used:
            check_all(node, one)
    check_all(node, one)


# Signatures.


def signature(domain, block, index):
    """What stands behind a block."""
    if isinstance(domain, Dif):
        words = guards.t10_crc(block, domain.seed), domain.app, domain.ref + index
        return struct.pack(">HHI", *words)
    if domain.bfs == CRC64:
        return guards.crc64_xp10(block, domain.seed).to_bytes(8, "little")
    return guards.crc32(block, domain.seed).to_bytes(4, "little")


def stream(domain, text):
    """A domain's bytes: blocks, each with its signature."""
    if domain is None:
        return text
    parts = [text[at : at + domain.block] for at in range(0, len(text), domain.block)]
    return b"".join(part + signature(domain, part, index) for index, part in enumerate(parts))


@st.composite
def domains(draw):
    """Memory and wire: one of them has signatures at least; blocks of one or of two lengths."""
    kinds = (Dif, Crc, lambda **options: Crc(bfs=CRC64, seed=(1 << 64) - 1, **options))
    found = []
    for block in draw(st.sampled_from([(512, 512), (520, 520), (512, 4096), (4096, 512)])):
        kind = draw(st.sampled_from(kinds))
        found.append(draw(st.sampled_from([None, kind(block=block)])))
    return found if any(found) else [found[0], Dif()]


@settings(max_examples=examples(60))
@given(data=st.data())
def test_signatures(data):
    """Any part of the wire's stream, read; and all of it, written in parts."""
    node = fresh()
    pair = node.queue_pair(), node.queue_pair()
    connect(*pair)
    mem, wire = data.draw(domains())
    unit = max(domain.block for domain in (mem, wire) if domain)
    text = random.Random(3).randbytes(unit * data.draw(st.integers(1, 3 if unit < 4096 else 2)))
    stored, sent = stream(mem, text), stream(wire, text)
    start = data.draw(st.sampled_from([0, 1, 0x780, 0x7F5C_8000_0780]))
    store = node.region(len(stored) + 50, va=0x5000_0000_0100 + data.draw(st.integers(0, 4096)))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stored) - 1), max_size=2)))
    parts = list(zip([0, *cuts], [*cuts, len(stored)]))
    gaps = [13 * number for number in range(len(parts))]  # so they do not lie together
    ranges = [store.sge(at + gap, end - at) for (at, end), gap in zip(parts, gaps)]
    key = SignatureKey(node).configure(pair[0], ranges, mem=mem, wire=wire)
    umr(pair[0], key.key, flags=0, mask=START, start_addr=start)
    node.settle()
    good(pair[0])

    for (at, end), gap in zip(parts, gaps):
        store.write(stored[at:end], at + gap)
    for _ in range(4):
        at = data.draw(st.integers(0, len(sent) - 1))
        length = data.draw(st.integers(1, len(sent) - at))
        views = found(node, key, start + at, length, LOCAL_READ)
        assert b"".join(views) == sent[at : at + length]

    store.write(bytes(store.size))
    marks = sorted(data.draw(st.sets(st.integers(1, len(sent) - 1), max_size=5)))
    for at, end in zip([0, *marks], [*marks, len(sent)]):
        copy(found(node, key, start + at, end - at, LOCAL_WRITE), (memoryview(sent[at:end]),))
    for (at, end), gap in zip(parts, gaps):
        assert store.read(at + gap, end - at) == stored[at:end]
