"""Which byte of which key an address is: lists that begin anywhere, and lists with holes."""

import random

import pytest

from emu.driver.command.words import pack64
from emu.driver.keys.by_command import dma_key, indirect_key
from emu.driver.keys.umr import LEN, MTT_ALL, OFFSET, PAGE_SIZE, PAGE_SIZE_5, FastRegKey, umr
from emu.driver.verbs.outcomes import failure, good
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.mkey import AccessMode
from layouts.enums.qp import QpState
from layouts.rings.wqe import KLM

PAGE = 4096
VA = 0x7F5C_8000_0000
TEXT = random.Random(1).randbytes(4 * PAGE)


@pytest.fixture
def region(node):
    region = node.region(4 * PAGE, va=VA)
    region.write(TEXT)
    return region


@pytest.fixture
def room(node):
    return node.region(4 * PAGE)


class TestEntriesOfEqualLength:
    """KSM: the first entry begins where the key does, wherever that is."""

    @pytest.mark.parametrize("start", [VA, VA + 0x780, VA + 1, VA + (1 << 31) - 8, 0, 8])
    def test_one_long_entry(self, node, qps, region, room, start):
        """UCX's key for atomics: entries of 2 GiB, and a start that is no multiple of them."""
        key = indirect_key(
            node, AccessMode.KSM, [(0, region.key, VA)], region.size,
            start_addr=start, log_page_size=31,
        )  # fmt: skip
        qps[0].read((key, start + 0x123), room.sge(0, 100))
        node.settle()
        good(qps[0])
        assert room.read(0, 100) == TEXT[0x123 : 0x123 + 100]

    @pytest.mark.parametrize("operation", ["fetch_add", "compare_swap"])
    def test_atomic(self, node, qps, region, room, operation):
        key = indirect_key(
            node, AccessMode.KSM, [(0, region.key, VA)], region.size,
            start_addr=VA + 0x780, log_page_size=31, a=1,
        )  # fmt: skip
        word = int.from_bytes(TEXT[0x40:0x48], "little")
        operands = (1,) if operation == "fetch_add" else (word, word + 1)
        getattr(qps[0], operation)((key, VA + 0x780 + 0x40), room.sge(0, 8), *operands)
        node.settle()
        good(qps[0])
        changed = (word + 1).to_bytes(8, "little")
        assert region.read() == TEXT[:0x40] + changed + TEXT[0x48:]

    @pytest.mark.parametrize("start", [0, 0x780, 0xFFF, 0x1000])
    def test_range_over_entries(self, node, qps, region, room, start):
        """Entries of a page, backwards, the last bytes of one and the first of the next."""
        pages = [(0, region.key, VA + at) for at in range(3 * PAGE, -1, -PAGE)]
        key = indirect_key(
            node, AccessMode.KSM, pages, region.size, start_addr=start, log_page_size=12
        )
        qps[0].write((key, start + PAGE - 5), room.sge(0, PAGE + 10))
        node.settle()
        good(qps[0])
        assert region.read(3 * PAGE) == TEXT[3 * PAGE : -5] + bytes(5)
        assert region.read(2 * PAGE, PAGE) == bytes(PAGE)
        assert region.read(PAGE, PAGE) == bytes(5) + TEXT[PAGE + 5 : 2 * PAGE]
        assert region.read(0, PAGE) == TEXT[:PAGE]

    @pytest.mark.parametrize("by", ["command", "UMR"])
    def test_entries_of_16_gib(self, node, qps, region, room, by):
        """Linux 7.2's implicit key with five-level page tables (umr_log_entity_size_5)."""
        entries = [(0, room.key, room.va), (0, region.key, VA)]
        if by == "command":
            key = indirect_key(node, AccessMode.KSM, entries, 1 << 35, log_page_size=34)
        else:
            key = indirect_key(node, AccessMode.KSM, entries, 2 * PAGE, log_page_size=12, umr_en=1)
            mask = PAGE_SIZE | PAGE_SIZE_5 | LEN
            umr(qps[1], key, flags=0, mask=mask, log_page_size=34, len=1 << 35)
            node.settle()
            good(qps[1])
        qps[0].read((key, (1 << 34) + 0x123), room.sge(0, 100))
        node.settle()
        good(qps[0])
        assert room.read(0, 100) == TEXT[0x123 : 0x123 + 100]

    def test_list_ends_before_the_range(self, node, qps, region, room):
        """One entry more would be needed, as the key begins inside a page: there is none."""
        key = indirect_key(
            node, AccessMode.KSM, [(0, region.key, VA)], 2 * PAGE, start_addr=1, log_page_size=12
        )
        qps[0].read((key, 1), room.sge(0, PAGE))
        node.settle()
        good(qps[0])
        qps[0].read((key, 2), room.sge(0, PAGE))
        assert failure(qps[0]) == CqeSyndrome.REMOTE_ACCESS_ERR


class TestHoles:
    """A UMR that writes entries behind such as were never given."""

    @pytest.fixture(params=["in use", "not used yet"])
    def key(self, request, node, qps, region, room):
        """Room for 24 pages; given are 0 to 7, of which the first four are the region's."""
        key = FastRegKey(node, entries=24)
        others = node.memory.pages(4 * PAGE)
        key.register(qps[1], [*region.pages, *others], 0, 24 * PAGE, variant=1)
        if request.param == "in use":
            qps[0].read((key.key, 0), room.sge(PAGE, 8))
        node.settle()
        good(qps[0])
        return key

    @pytest.fixture(autouse=True)
    def hole(self, node, qps, region, key):
        """Entries 16 to 19 are given as well: the region's pages again."""
        xlt = pack64([page | MTT_ALL for page in region.pages]).ljust(64, b"\0")
        umr(qps[1], key.key, flags=OFFSET, mask=0, xlt=xlt, offset=8)
        node.settle()
        good(qps[1])

    def test_what_is_behind_the_hole(self, node, qps, region, room, key):
        qps[0].write((key.key, 17 * PAGE + 3), room.sge(0, 100))
        node.settle()
        good(qps[0])
        assert region.read() == TEXT[: PAGE + 3] + bytes(100) + TEXT[PAGE + 103 :]

    @pytest.mark.parametrize("page", [8, 9, 15, 20, 23])
    def test_what_was_never_given(self, qps, region, room, key, page):
        qps[0].write((key.key, page * PAGE), room.sge(0, 8))
        assert failure(qps[0]) == CqeSyndrome.REMOTE_ACCESS_ERR
        assert region.read() == TEXT


class TestWholeAddressSpace:
    """The key of implicit on-demand paging where page tables have five levels: 2^26 GiB."""

    ENTRIES, GIB = 1 << 26, 1 << 30
    UMR = (1 << 16) - 4
    """Entries of one request (umr.c: MLX5_MAX_UMR_CHUNK)."""

    @pytest.fixture
    def key(self, node):
        return FastRegKey(
            node, entries=self.ENTRIES, mode=AccessMode.KSM, log_page_size=30, length64=1, free=0,
            lr=1, lw=1, rr=1, rw=1,
        )  # fmt: skip

    @pytest.fixture
    def everything(self, node):
        return dma_key(node)

    def fill(self, node, qp, key, everything, at, entries):
        """One UMR, its list in memory."""
        count = len(entries)
        address = node.memory.alloc(16 * count, 64)
        node.memory.write(address, b"".join(KLM.pack(*entry) for entry in entries))
        pointer = 16 * count, everything, address
        umr(qp, key.key, flags=OFFSET, mask=0, offset=at, octwords=count, pointer=pointer)

    @pytest.mark.parametrize("stride", [0, GIB])
    def test_child_at_the_end_of_it(self, node, qps, key, everything, region, room, stride):
        """Filled with entries that say "absent", a child in the midst of them."""
        at = self.ENTRIES - self.UMR
        null = node.driver.must(Op.QUERY_SPECIAL_CONTEXTS).null_mkey
        absent = [(0, null, n * stride) for n in range(at, self.ENTRIES)]
        self.fill(node, qps[1], key, everything, at, absent)
        node.settle()
        held = node.hca.ledger.accounts["mkey"]
        index = self.ENTRIES - 8
        child = [(0, region.key, VA), *absent[-7:-4]]
        xlt = b"".join(KLM.pack(*entry) for entry in child)
        umr(qps[1], key.key, flags=OFFSET, mask=0, xlt=xlt, offset=index)
        qps[0].read((key.key, index * self.GIB + 100), room.sge(0, 50))
        node.settle()
        good(qps[0])
        assert room.read(0, 50) == TEXT[100:150]
        assert node.hca.ledger.accounts["mkey"] - held < 1 << 17
        qps[0].read((key.key, (index - 1) * self.GIB), room.sge(0, 50))
        assert failure(qps[0]) == CqeSyndrome.REMOTE_ACCESS_ERR

    def test_it_is_paid_for_as_it_is_filled(self, node, qps, key, everything):
        """The request that would cost more than is left changes nothing."""
        ledger, mkey = node.hca.ledger, node.hca.mkeys.get(key.index)
        entries = [(0, number * number & 0xFFFFFFFF, 0) for number in range(10_000)]
        self.fill(node, qps[1], key, everything, 0, entries)
        node.settle()
        good(qps[1])
        used = ledger.used
        assert used > 16 * 10_000
        ledger.limit = used + 1000
        before = mkey.blocks.to_bytes(1 << 20)
        self.fill(node, qps[1], key, everything, 20_000, entries)
        assert failure(qps[1]) == CqeSyndrome.MW_BIND_ERR
        assert qps[1].state is QpState.ERR
        assert (ledger.used, mkey.blocks.to_bytes(1 << 20)) == (used, before)
        node.driver.must(Op.DESTROY_MKEY, mkey_index=key.index)
        assert ledger.used < used - 16 * 10_000

    def test_pages_far_behind(self, node, qps, region, room):
        """The last page of a key for 256 GiB, given first."""
        key = FastRegKey(node, entries=1 << 26, length64=1, free=0, log_page_size=12, rr=1)
        xlt = pack64([page | MTT_ALL for page in region.pages]).ljust(64, b"\0")
        umr(qps[1], key.key, flags=OFFSET, mask=0, xlt=xlt, offset=(1 << 25) - 4)
        qps[0].read((key.key, ((1 << 26) - 8) * PAGE), room.sge(0, 4 * PAGE))
        node.settle()
        good(qps[0])
        assert room.read() == TEXT
        assert node.hca.mkeys.get(key.index).pages.count == 1 << 26
