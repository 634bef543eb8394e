"""Keys that nobody creates: the dump-fill key and the reserved lkey, used rightly and wrongly.

The null key's tests stand with on-demand paging.
"""

import pytest

from emu.device.objects.memory.mkey import FIRST_MKEY_INDEX
from emu.driver.keys.umr import MemoryWindow
from emu.driver.verbs.channels import Channel
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeSyndrome
from layouts.enums.qp import QpType

PAGE = 4096
NULL_MKEY, DUMP_FILL_MKEY, RESERVED_LKEY = 0x200, 0x300, 0x400
"""What QUERY_SPECIAL_CONTEXTS answers where the adapter has all three."""
TEXT = bytes(range(1, 251)) * 40
PROT, REMOTE = CqeSyndrome.LOCAL_PROT_ERR, CqeSyndrome.REMOTE_ACCESS_ERR
SERVICES = (QpType.RC, QpType.UC, QpType.UD, QpType.XRC)


@pytest.fixture
def regions(channel):
    """Ordinary memory at either end."""
    made = [node.region(3 * PAGE) for node in (channel.left, channel.right)]
    for region in made:
        region.write(TEXT)
    return made


def test_they_are_different_and_nobodys_index(driver):
    answer = driver.must(Op.QUERY_SPECIAL_CONTEXTS)
    keys = answer.null_mkey, answer.dump_fill_mkey, answer.resd_lkey
    assert keys == (NULL_MKEY, DUMP_FILL_MKEY, RESERVED_LKEY)
    assert len({key >> 8 for key in keys}) == 3
    assert all(1 < key >> 8 < FIRST_MKEY_INDEX for key in keys)


class TestDumpFill:
    @pytest.fixture
    def key(self, channel):
        return channel.left.driver.must(Op.QUERY_SPECIAL_CONTEXTS).dump_fill_mkey

    @pytest.mark.parametrize("service", SERVICES)
    def test_sends_zeros(self, channel, key, regions):
        channel.post_recv(regions[1].sge())
        channel.send(regions[0].sge(0, 10), (700, key, 0x1234), regions[0].sge(10, 10))
        channel.settle()
        assert len(channel.sent()) == len(channel.received()) == 1
        got = regions[1].read(channel.header, 721)
        assert got == TEXT[:10] + bytes(700) + TEXT[10:20] + TEXT[channel.header + 720 :][:1]

    def test_writes_zeros(self, channel, key, regions):
        channel.write((regions[1].key, regions[1].va + 5), (9000, key, 0))
        channel.settle()
        assert len(channel.sent()) == 1
        assert regions[1].read(0, 9006) == TEXT[:5] + bytes(9000) + TEXT[9005:9006]

    def test_swallows_what_a_read_brings(self, channel, key, regions):
        channel.read((regions[1].key, regions[1].va), regions[0].sge(0, 4), (100, key, 0),
                     regions[0].sge(4, 4))  # fmt: skip
        channel.settle()
        assert len(channel.sent()) == 1
        assert regions[0].read(0, 8) == TEXT[:4] + TEXT[104:108]

    @pytest.mark.parametrize("service", SERVICES)
    def test_swallows_what_is_received(self, channel, key, regions):
        key = channel.right.driver.must(Op.QUERY_SPECIAL_CONTEXTS).dump_fill_mkey
        channel.post_recv((channel.header + 100, key, 0), regions[1].sge(0, 8))
        channel.send(regions[0].sge(1, 108))
        channel.settle()
        (done,) = channel.received()
        assert done.byte_cnt == channel.header + 108
        assert regions[1].read(0, 8) == TEXT[101:109]
        channel.post_recv(regions[1].sge())
        channel.send((50, key, 0))
        channel.settle()
        assert regions[1].read(channel.header, 50) == bytes(50), "what was written is not kept"

    def test_any_address_and_length(self, channel, key, regions):
        channel.read((regions[1].key, regions[1].va), (3 * PAGE, key, (1 << 64) - 1))
        channel.settle()
        assert len(channel.sent()) == 1

    @pytest.mark.parametrize("operation", ["read", "write", "fetch_add"])
    def test_is_no_rkey(self, channel, key, regions, operation):
        extra = (1,) if operation == "fetch_add" else ()
        getattr(channel, operation)((key, 0), regions[0].sge(0, 8), *extra)
        assert channel.failure() == REMOTE
        assert regions[0].read(0, 8) == TEXT[:8]

    def test_no_window_over_it(self, node, key, channel):
        window = MemoryWindow(node, 1)
        window.bind(channel.sender, Anything(node, key), 0, PAGE)
        channel.settle()
        channel.sender.cq.drain()
        channel.read((window.key, 0), node.region(8).sge())
        channel.settle()
        assert any(done.syndrome for done in channel.sender.cq.drain())

    def test_variant_has_to_be_right(self, channel, key, regions):
        channel.send((100, key + 1, 0))
        assert channel.failure() == PROT

    @pytest.mark.parametrize("limits", [{"dump_fill_mkey": 0}])
    def test_only_where_there_is_one(self, limits, channel, key):
        assert key == 0
        channel.send((100, DUMP_FILL_MKEY, 0))
        assert channel.failure() == PROT


class Anything:
    """What a window may be bound to, by its key alone."""

    def __init__(self, node, key):
        self.node, self.key, self.va, self.size = node, key, 0, PAGE


class TestReservedLkey:
    @pytest.fixture
    def key(self, node):
        return node.driver.must(Op.QUERY_SPECIAL_CONTEXTS).resd_lkey

    @pytest.fixture
    def channel(self, node):
        """Both ends are the driver's own, and say that they use the reserved lkey."""
        return privileged(node)

    @pytest.fixture
    def page(self, node):
        """Guest memory by its physical address."""
        (address,) = node.memory.pages(PAGE)
        node.memory.write(address, TEXT[:PAGE])
        return address

    def test_names_physical_addresses(self, channel, key, page, regions):
        channel.write((regions[1].key, regions[1].va), (1000, key, page + 8))
        channel.settle()
        assert len(channel.sent()) == 1
        assert regions[1].read(0, 1000) == TEXT[8:1008]

    def test_takes_what_arrives(self, node, channel, key, page, regions):
        channel.post_recv((500, key, page))
        channel.send(regions[0].sge(100, 500))
        channel.settle()
        (done,) = channel.received()
        assert (done.byte_cnt, node.memory.read(page, 500)) == (500, TEXT[100:600])
        channel.read((regions[1].key, regions[1].va), (64, key, page + 64))
        channel.settle()
        assert node.memory.read(page + 64, 64) == TEXT[:64]

    @pytest.mark.parametrize("address", [1 << 60, (1 << 64) - 8])
    def test_not_guest_memory(self, channel, key, regions, address):
        channel.write((regions[1].key, regions[1].va), (8, key, address))
        assert channel.failure() == PROT

    def test_queue_pair_that_does_not_say_so(self, node, key, page, regions):
        plain = Channel(QpType.RC, node, node)
        plain.write((regions[1].key, regions[1].va), (8, key, page))
        assert plain.failure() == PROT

    def test_receive_request_that_does_not_say_so(self, node, key, page, regions):
        plain = Channel(QpType.RC, node, node)
        plain.post_recv((8, key, page))
        plain.send(regions[0].sge(0, 8))
        assert plain.failure() == CqeSyndrome.REMOTE_OP_ERR

    @pytest.mark.parametrize("operation", ["read", "write", "fetch_add"])
    def test_is_no_rkey(self, node, channel, key, page, regions, operation):
        extra = (1,) if operation == "fetch_add" else ()
        getattr(channel, operation)((key, page), regions[0].sge(0, 8), *extra)
        assert channel.failure() == REMOTE
        assert node.memory.read(page, 8) == TEXT[:8]

    def test_no_window_over_it(self, node, channel, key, page):
        window = MemoryWindow(node, 1)
        window.bind(channel.sender, Anything(node, key), page, 8)
        channel.settle()
        channel.sender.cq.drain()
        channel.read((window.key, page), node.region(8).sge())
        channel.settle()
        assert any(done.syndrome for done in channel.sender.cq.drain())

    def test_users_are_not_told_and_get_no_such_queue_pair(self, node, refused):
        uid = node.driver.must(Op.CREATE_UCTX).uid
        refused(Status.BAD_PARAM_ERR, Op.QUERY_SPECIAL_CONTEXTS, _uid=uid)
        refused(Status.BAD_PARAM_ERR, Op.CREATE_QP, uid=uid, qpc={"st": QpType.RC, "rlky": 1})

    def test_users_queue_pair_that_says_so_later(self, node, channel, key, page, regions):
        """A transition can set the bit; it does not make the queue pair the driver's."""
        uid = node.driver.must(Op.CREATE_UCTX).uid
        node.hca.qps.get(channel.sender.qpn).uid = uid
        channel.write((regions[1].key, regions[1].va), (8, key, page))
        assert channel.failure() == PROT


def privileged(node):
    """A channel whose queue pairs have ``rlky``, as kernels make theirs (create_kernel_qp)."""
    return Channel(QpType.RC, node, node, rlky=1)
