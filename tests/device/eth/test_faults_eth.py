"""Rules about Ethernet frames, requests and completions: what the driver sees of each action."""

import pytest

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import unsegmented
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, UDP, EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.striding_queue import StridingQueue
from emu.driver.world.cable import arrive
from layouts.enums.cmd import Op
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.wq import RqState, SqState
from layouts.enums.wqe import EthChecksum

ARP = (MACS + b"\x08\x06" + bytes(28)).ljust(60, b"\0")
MS = 1_000_000


@pytest.fixture
def fired():
    return []


@pytest.fixture
def plan(function, fired):
    injector = Injector(function, sink=fired.append)
    function.use_faults(injector)
    return lambda text: injector.load(load(f"[[rule]]\n{text}"))


@pytest.fixture
def buffers(node, driver, counter):
    """Of a receive queue that gets every frame."""
    rq = ReceiveQueue(node, counter_set_id=counter)
    lead(driver, rq)
    return Buffers(rq)


def lead(driver, rq):
    """Make every frame go to a receive queue."""
    flows = Flows(driver)
    table = flows.table(0, log_size=0)
    group = flows.group(table, 0, 0)
    flows.set_root(table)
    flows.entry(table, 0, group, to_tir(create_direct_tir(driver, alloc_td(driver), rq.rqn)))


def frames(count):
    return [EthPacket(payload=bytes([number]) * 100).frame() for number in range(count)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ('action="drop"\nindex=2', [0, 2, 3]),
        ('action="duplicate"\nindex=2', [0, 1, 1, 2, 3]),
        ('action="reorder"\nindex=2', [0, 2, 1, 3]),
        ('action="delay"\nms=1\nindex=2', [0, 2, 3, 1]),
        ('action="drop"\nmatch.ethertype=0x0800\nmatch.destination_port=80', []),
        ('action="drop"\nmatch.ethertype=0x0806', [0, 1, 2, 3]),
        ('action="drop"\nmatch.multicast=1', [0, 1, 2, 3]),
    ],
)
@pytest.mark.parametrize("point", ["frame.tx", "frame.rx"])
def test_frames_move(node, clock, plan, sq, buffers, eth_wire, point, rule, expected):
    plan(f'point="{point}"\n{rule}')
    sent = frames(4)
    if point == "frame.tx":
        for data in sent:
            sq.send(data)
        node.settle()
        clock.advance(MS)
        found = [frame.data for frame in eth_wire.sent()]
    else:
        for data in sent:
            arrive(node.hca, Frame(data))
        clock.advance(MS)
        found = [data for _, data in buffers.drain()]
    assert found == [sent[number] for number in expected]


def test_corrupted_in_silence(node, plan, buffers):
    """The checksum tells, as nobody vouches for it any more."""
    plan('point="frame.rx"\naction="corrupt"\nat=60\ntimes=1')
    (data,) = frames(1)
    arrive(node.hca, Frame(data, checked=True))
    arrive(node.hca, Frame(data))
    (wrong, bad), (right, good) = buffers.drain()
    assert (bad[60] ^ 0xFF, bad[:60], good) == (data[60], data[:60], data)
    assert (wrong.hds_ip_ext, right.hds_ip_ext) == (3, 7)


def test_replaced(node, plan, buffers):
    plan(f'point="frame.rx"\naction="replace"\ndata="{"ff" * 6}"')
    arrive(node.hca, Frame(ARP))
    assert [data for _, data in buffers.drain()] == [b"\xff" * 6 + ARP[6:]]


def test_large_send_loses_its_wholeness(node, plan, sq, eth_wire):
    plan('point="frame.tx"\naction="corrupt"\nmatch.gso_size=100')
    packet = EthPacket(payload=bytes(250))
    whole = unsegmented(packet.header(), packet.payload, 100)
    sq.send(*[packet.payload], opcode=0xE, mss=100, headers=packet.header(),
            cs_flags=EthChecksum.L3 | EthChecksum.L4)  # fmt: skip
    node.settle()
    found = eth_wire.sent()
    assert [(len(frame.data), frame.gso_size) for frame in found] == [(154, 0), (154, 0), (104, 0)]
    assert found[0].data[-1] == 0xFF
    assert whole is not None


@pytest.mark.hostile
@pytest.mark.parametrize("action", ["drop", "duplicate", "corrupt", "reorder"])
def test_rules_meet_frames_that_are_none(node, plan, buffers, action):
    plan(f'point="frame.rx"\naction="{action}"')
    for frame in (Frame(b""), Frame(b"\1" * 13), Frame(ARP, 7), Frame(b"", 7), Frame(ARP)):
        arrive(node.hca, frame)
    assert not node.hca.health.has_failed


def test_request_fails_at_its_turn(node, plan, sq, eth_wire):
    plan(f'point="wqe"\naction="fail"\nsyndrome="LOCAL_PROT_ERR"\nmatch.qpn={sq.sqn}\nindex=2')
    for _ in range(3):
        sq.send(ARP)
    node.settle()
    assert [(done.opcode, done.syndrome) for done in sq.cq.drain()] == [
        (CqeOpcode.REQ, 0),
        (CqeOpcode.REQ_ERR, CqeSyndrome.LOCAL_PROT_ERR),
        (CqeOpcode.REQ_ERR, CqeSyndrome.WR_FLUSH_ERR),
    ]
    assert len(eth_wire.sent()) == 1
    assert sq.query().state == SqState.ERR


def test_receive_request_fails(node, plan, buffers):
    plan('point="wqe.rx"\naction="fail"\nindex=2')
    for _ in range(3):
        arrive(node.hca, Frame(ARP))
    found = [(entry.op_own >> 4, entry.wqe_counter) for entry, _ in buffers.drain()][:2]
    assert found == [(CqeOpcode.RESP_SEND, 0), (CqeOpcode.RESP_ERR, 1)]
    assert buffers.rq.query().state == RqState.ERR


def test_receive_request_is_not_there(node, driver, plan, buffers, counter):
    plan('point="wqe.rx"\naction="drop"\nmatch.length=60')
    arrive(node.hca, Frame(ARP))
    arrive(node.hca, Frame(EthPacket(protocol=UDP, chain=UDP, payload=bytes(99)).frame()))
    assert [entry.wqe_counter for entry, _ in buffers.drain()] == [0]
    assert driver.must(Op.QUERY_Q_COUNTER, counter_set_id=counter).out_of_buffer == 1


@pytest.mark.parametrize("index", [1, 2])
@pytest.mark.parametrize("is_cyclic", [False, True], ids=["linked", "cyclic"])
def test_receive_request_of_strides_is_not_there(node, driver, plan, is_cyclic, index):
    """The packet is lost; the request with its strides stays, and stays one."""
    rq = StridingQueue(node, is_cyclic=is_cyclic)
    lead(driver, rq)
    rq.post_more()
    plan(f'point="wqe.rx"\naction="drop"\nindex={index}\ntimes=1')
    for _ in range(2 * rq.count):
        arrive(node.hca, Frame(ARP))
    pieces = rq.drain()
    assert [(piece.wqe_id, piece.first) for piece in pieces] == [(0, n) for n in range(rq.count)]
    rq.post_more()
    arrive(node.hca, Frame(ARP))
    assert [(piece.wqe_id, piece.first) for piece in rq.drain()] == [(1, 0)]


@pytest.mark.parametrize("side", ["send", "receive"])
def test_completion_becomes_an_error(node, plan, sq, buffers, side):
    plan('point="cqe"\naction="fail"\nsyndrome="LOCAL_LENGTH_ERR"\ntimes=1')
    if side == "send":
        sq.send(ARP)
        node.settle()
        (done,) = sq.cq.drain()
        expected = CqeOpcode.REQ_ERR
        assert sq.query().state == SqState.ERR
    else:
        arrive(node.hca, Frame(ARP))
        done = buffers.rq.cq.drain()[0]
        expected = CqeOpcode.RESP_ERR
        assert buffers.rq.query().state == RqState.ERR
    assert (done.opcode, done.syndrome) == (expected, CqeSyndrome.LOCAL_LENGTH_ERR)
    assert done.wqe_counter == 0


def test_completion_lost(node, plan, sq, buffers):
    plan('point="cqe"\naction="drop"')
    sq.send(ARP)
    arrive(node.hca, Frame(ARP))
    node.settle()
    assert (sq.cq.drain(), buffers.drain()) == ([], [])
