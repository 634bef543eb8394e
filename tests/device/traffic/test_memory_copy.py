"""Copies within the host's memory, by requests of a queue pair (mlx5dv_wr_memcpy)."""

import pytest

from emu.device.models import LINKS, MODELS
from emu.driver.keys.signatures import Crc, Dif, SignatureKey
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.wqe import Opcode
from layouts.objects.qp import qpc_ext
from layouts.rings.wqe import DATA, INLINE, mmo_metadata_seg

DMA, MMO = 1, 1 << 3
"""opmod; the bit of opt_param_mask_95_32."""
MOST = 1 << 21
META = bytes(mmo_metadata_seg.new())


@pytest.fixture
def model():
    return MODELS["connectx7"]


def enable(qp, mmo=1, **fields):
    given = {"qpc_ext": 1, "opt_param_mask_95_32": MMO, "qpc_data_ext": bytes(qpc_ext.new(mmo=mmo))}
    return qp.node.driver.command(Op.INIT2INIT_QP, qpn=qp.qpn, **given | fields)


@pytest.fixture
def qp(node):
    """A queue pair that copies, in INIT."""
    made = node.queue_pair()
    made.init()
    assert enable(made).status == Status.OK
    return made


@pytest.fixture
def ready(node, qp):
    """It is connected with nobody (pyverbs: DmaGgaMemcpy)."""
    return qp.to_rtr(**{"path": node.path_to(node)}).to_rts()


def copy(qp, source, target, opmod=DMA, **options):
    """Each is a data segment."""
    return qp.post(Opcode.MMO, META, DATA.pack(*source), DATA.pack(*target), opmod=opmod, **options)


def test_by_model():
    has = {
        (name, link.name): model.general.get("dma_mmo_qp", 0)
        for name, links in LINKS.items()
        for link, model in links.items()
    }
    assert {key for key, value in has.items() if value} == {
        (name, link) for name, link in has if name.startswith(("connectx7", "bluefield3"))
    }


@pytest.mark.parametrize("length", [1, 100, 5000])
def test_bytes_are_copied(node, ready, length):
    source, target = node.region(8192), node.region(8192)
    source.write(bytes(range(256)) * 32)
    target.write(b"\xee" * 8192)
    index = copy(ready, source.sge(7, length), target.sge(9, length))
    node.settle()
    (done,) = ready.cq.drain()
    assert (done.opcode, done.wqe_counter) == (CqeOpcode.REQ, index)
    assert done.wqe_opcode == Opcode.MMO
    whole = (bytes(range(256)) * 32)[7 : 7 + length]
    assert target.read(0, 8192) == b"\xee" * 9 + whole + b"\xee" * (8192 - 9 - length)


def test_the_longest_copy(node, ready):
    source, target = node.region(MOST), node.region(MOST)
    source.write(b"begin", 0)
    source.write(b"end", MOST - 3)
    copy(ready, source.sge(0, MOST), target.sge(0, MOST))
    node.settle()
    (done,) = ready.cq.drain()
    assert done.opcode == CqeOpcode.REQ
    assert (target.read(0, 5), target.read(MOST - 3, 3)) == (b"begin", b"end")


def test_copies_keep_their_order(node, ready):
    region = node.region(4096)
    region.write(b"once")
    for number in range(20):
        copy(ready, region.sge(4 * number, 4), region.sge(4 * number + 4, 4), ring=number == 19)
    node.settle()
    assert len(ready.cq.drain()) == 20
    assert region.read(0, 84) == b"once" * 21


@pytest.mark.hostile
class TestRefused:
    def test_a_queue_pair_that_has_not_asked_for_it(self, node):
        qp = node.queue_pair()
        qp.init()
        qp.to_rtr(path=node.path_to(node)).to_rts()
        region = node.region(64)
        copy(qp, region.sge(0, 8), region.sge(8, 8))
        node.settle()
        (done,) = qp.cq.drain()
        assert done.syndrome == CqeSyndrome.LOCAL_QP_OP_ERR

    def test_reset_takes_it_away(self, node, ready):
        ready.to_reset()
        ready.init()
        assert not node.hca.qps.need(ready.qpn).has_mmo

    @pytest.mark.parametrize("opmod", [0, 2, 0xFF])
    def test_other_operations(self, node, ready, opmod):
        region = node.region(64)
        copy(ready, region.sge(0, 8), region.sge(8, 8), opmod=opmod)
        node.settle()
        (done,) = ready.cq.drain()
        assert done.syndrome == CqeSyndrome.LOCAL_QP_OP_ERR

    @pytest.mark.parametrize(
        "lengths", [(8, 9), (INLINE | 8, INLINE | 8), (0, 0), (MOST + 1, MOST + 1)]
    )
    def test_lengths(self, node, ready, lengths):
        region = node.region(64)
        (_, key, at), (one, two) = region.sge(0, 8), lengths
        copy(ready, (one, key, at), (two, key, at + 16))
        node.settle()
        (done,) = ready.cq.drain()
        assert done.syndrome == CqeSyndrome.LOCAL_QP_OP_ERR

    @pytest.mark.parametrize("side", [0, 1])
    def test_lengths_that_differ_by_signatures(self, node, ready, side):
        """A block of 512 bytes has 8 more in memory, and 4 on the wire."""
        regions = node.region(1024), node.region(1024)
        key = SignatureKey(node).configure(
            ready, [regions[side].sge(0, 520)], mem=Dif(), wire=Crc(), check=0
        )
        places = [region.sge(0, 520) for region in regions]
        places[side] = (520, key.key, 0)
        copy(ready, *places)
        node.settle()
        (done,) = ready.cq.drain()
        assert done.syndrome == CqeSyndrome.LOCAL_QP_OP_ERR
        assert regions[1].read(0, 1024) == bytes(1024)

    @pytest.mark.parametrize("segments", [1, 2, 3])
    def test_a_short_request(self, node, ready, segments):
        ready.post(Opcode.MMO, *[META] * (segments - 1), opmod=DMA)
        node.settle()
        (done,) = ready.cq.drain()
        assert done.syndrome == CqeSyndrome.LOCAL_QP_OP_ERR

    def test_keys_that_do_not_allow_it(self, node, ready):
        """Bounds, a key that is not there, one without the right to write."""
        source, target = node.region(64), node.region(64, lw=0)
        source.write(b"secret")
        copy(ready, source.sge(0, 6), target.sge(0, 6))
        node.settle()
        (done,) = ready.cq.drain()
        assert done.syndrome == CqeSyndrome.LOCAL_PROT_ERR
        assert target.read(0, 6) == bytes(6)

    @pytest.mark.parametrize("side", [0, 1])
    def test_bounds(self, node, ready, side):
        regions = node.region(64), node.region(64)
        places = [list(region.sge(0, 8)) for region in regions]
        places[side][2] += 60
        copy(ready, *places)
        node.settle()
        (done,) = ready.cq.drain()
        assert done.syndrome == CqeSyndrome.LOCAL_PROT_ERR
        assert regions[1].read(0, 64) == bytes(64)

    @pytest.mark.parametrize("mask", [1 << 4, 1 << 3 | 1, 1 << 63])
    def test_other_options(self, node, mask):
        qp = node.queue_pair()
        qp.init()
        assert enable(qp, opt_param_mask_95_32=mask).status == Status.BAD_PARAM_ERR
        assert not node.hca.qps.need(qp.qpn).has_mmo

    def test_without_the_extension_it_is_off(self, node, qp):
        assert enable(qp, qpc_ext=0).status == Status.OK
        assert not node.hca.qps.need(qp.qpn).has_mmo


class TestOlder:
    @pytest.fixture
    def model(self):
        return MODELS["connectx6"]

    def test_it_cannot(self, node):
        qp = node.queue_pair()
        qp.init()
        assert enable(qp).status == Status.BAD_PARAM_ERR
