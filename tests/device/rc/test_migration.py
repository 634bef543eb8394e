"""Automatic path migration: alternate paths, and how two queue pairs change to them together.

The alternate path differs from the primary one by its global route header, so a packet shows which
of the two it has taken. Source: IBTA 17.2.8 (automatic path migration), 9.6.1.5.
"""

from types import SimpleNamespace

import pytest
from helpers.device.forging import train

from emu.driver.nodes.packet_wire import is_train
from emu.driver.nodes.roce import on_one_segment
from emu.driver.verbs.connect import connect
from layouts.enums.cmd import Op, Status
from layouts.enums.cqe import CqeOpcode, CqeSyndrome
from layouts.enums.eqe import EventType
from layouts.enums.qp import PmState, QpType
from layouts.wire.bth import LNH_GLOBAL, LNH_MASK, MIGRATED

ALT_PATH, PM_STATE = 1 << 0, 1 << 10
"""Bits of opt_param_mask (MLX5_QP_OPTPAR_*)."""
SECOND_NS = 1_000_000_000
ARMED, REARM, DONE = PmState.ARMED, PmState.REARM, PmState.MIGRATED


def alternate(node, peer, **fields):
    """The path to another node with a global route header, and a short timeout."""
    return {
        "vhca_port_num": 1, "grh": 1, "rgid_rip": peer.hca.link.gid(0), "hop_limit": 9,
        "ack_timeout": 10, **node.path_to(peer),
    } | fields  # fmt: skip


def modify(qp, mask=PM_STATE, pm_state=REARM, path=None):
    """RTS to RTS with these two."""
    qpc = {"pm_state": pm_state} | ({"secondary_address_path": path} if path else {})
    return {"qpn": qp.qpn, "opt_param_mask": mask, "qpc": qpc}


def load(qp, peer, pm_state=REARM, **fields):
    """Load the alternate path to a peer, and rearm the queue pair."""
    path = alternate(qp.node, peer.node, **fields)
    qp.node.driver.must(Op.RTS2RTS_QP, **modify(qp, ALT_PATH | PM_STATE, pm_state, path))


def migrate(qp):
    qp.node.driver.must(Op.RTS2RTS_QP, **modify(qp, pm_state=DONE))


def state(qp):
    """Its migration state, and whether its primary path has a global route header."""
    ctx = qp.node.driver.must(Op.QUERY_QP, qpn=qp.qpn).qpc
    return PmState(ctx.pm_state), bool(ctx.primary_address_path.grh)


def migrations(node):
    """What events have told about migration."""
    told = (EventType.PATH_MIG, EventType.PATH_MIG_FAILED)
    return [event for event in node.events() if event[0] in told]


@pytest.fixture
def pair(ends):
    """Two queue pairs; the small driver leaves pm_state 0 where a kernel has 3, which is alike."""
    one, two = (node.queue_pair() for node in ends)
    connect(one, two, retry_count=2)
    return one, two


@pytest.fixture
def armed(pair, passes):
    for qp, peer in (pair, pair[::-1]):
        load(qp, peer)
    assert [state(qp) for qp in pair] == [(REARM, False)] * 2
    assert passes(*pair)
    assert [state(qp) for qp in pair] == [(ARMED, False)] * 2
    return pair


@pytest.fixture
def passes(clock):
    """Whether a message arrives."""

    def send(one, two, data=b"a message"):
        target = two.node.region(64)
        two.post_recv(target.sge())
        one.send(data)
        for _ in range(4):
            one.node.settle()
            clock.advance(1000)
        sent, received = one.cq.drain(), two.cq.drain()
        if not received:
            return False
        assert [done.opcode for done in (*sent, *received)] == [
            CqeOpcode.REQ, CqeOpcode.RESP_SEND,
        ]  # fmt: skip
        return target.read(0, len(data)) == data

    return send


def test_armed_by_packets(armed, passes):
    one, two = armed
    assert [migrations(qp.node) for qp in armed] == [[], []]
    for _ in range(3):
        assert passes(one, two)
        assert passes(two, one)
    assert state(one) == (ARMED, False)


def test_one_end_alone_is_not_armed(pair, passes):
    one, two = pair
    load(one, two)
    for _ in range(3):
        assert passes(one, two)
        assert passes(two, one)
    assert state(one) == (REARM, False)
    assert state(two)[1] is False


@pytest.mark.parametrize("ends", ["packets"], indirect=True)
def test_armed_queue_pairs_send_and_take_no_trains(armed, packet_wire):
    """Each packet says whether its sender has migrated, and each is looked at for that."""
    packet_wire.takes_trains, seen = True, []
    one, two = armed
    source, target = one.node.region(1 << 16), two.node.region(1 << 16)
    packet_wire.tap = lambda frame: (seen.append(frame), [frame])[1]
    one.write((target.key, target.va), source.sge())
    one.node.settle()
    assert len(seen) > 8
    assert not any(map(is_train, seen))
    ends = SimpleNamespace(receiver=two, left=one.node, service=QpType.RC)
    psn, mtu = two.node.hca.qps.get(two.qpn).epsn, two.node.hca.qps.get(two.qpn).mtu_bytes
    packet_wire.arrive(train(ends, psn, 5, mtu=mtu, is_migrated=True))
    assert two.node.hca.link.dropped["migrated to another path than the alternate one"] == 5
    assert two.node.hca.qps.get(two.qpn).epsn == psn
    assert (EventType.PATH_MIG_FAILED, two.qpn) in migrations(two.node)


def test_by_command(armed, passes):
    """The other end follows the first packet, and learns of that by an event."""
    one, two = armed
    migrate(one)
    assert state(one) == (DONE, True)
    assert state(two) == (ARMED, False)
    assert passes(one, two)
    assert state(two) == (DONE, True)
    assert (EventType.PATH_MIG, two.qpn) in migrations(two.node)
    assert one.node is two.node or migrations(one.node) == []
    assert passes(two, one)


def test_only_what_a_queue_pair_may_receive_makes_it_migrate(armed, clock):
    one, two = armed
    two.node.driver.must(Op._2ERR_QP, qpn=two.qpn)
    migrate(one)
    one.send(b"to nobody")
    for _ in range(4):
        one.node.settle()
        clock.advance(1000)
    assert state(two) == (ARMED, False)
    assert (EventType.PATH_MIG, two.qpn) not in migrations(two.node)


@pytest.mark.parametrize("pm_state", [DONE, 2])
def test_a_state_that_no_bit_selects_means_nothing(armed, passes, pm_state):
    one, two = armed
    one.node.driver.must(Op.RTS2RTS_QP, **modify(one, mask=0, pm_state=pm_state))
    assert [state(qp) for qp in armed] == [(ARMED, False)] * 2
    assert passes(one, two)


def test_and_back(armed, passes):
    """Rearmed with the old path, they migrate again; loading alone arms nobody."""
    one, two = armed
    migrate(one)
    assert passes(one, two)
    for qp, peer in (armed, armed[::-1]):
        load(qp, peer, grh=0, sl=3)
    assert passes(two, one)
    assert [state(qp) for qp in armed] == [(ARMED, True)] * 2
    migrate(two)
    assert passes(two, one)
    assert [state(qp) for qp in armed] == [(DONE, False)] * 2


def test_armed_without_an_alternate_path(pair, passes):
    """It means nothing, whoever says so (iPXE: golan.c)."""
    one, two = pair
    for qp in pair:
        qp.node.driver.must(Op.RTS2RTS_QP, **modify(qp, pm_state=ARMED))
    assert passes(one, two)
    migrate(one)
    assert passes(one, two)
    assert state(one)[1] is False
    assert migrations(two.node) == []


def test_given_up(pair, passes):
    """REARM to MIGRATED by command leaves the path as it is."""
    one, two = pair
    load(one, two)
    migrate(one)
    assert state(one) == (DONE, False)
    assert passes(one, two)
    assert migrations(one.node) == []


@pytest.mark.parametrize("step", ["RTR", "RTS"])
def test_paths_come_with_earlier_commands(pair, step, passes):
    one, two = (node.queue_pair() for node in (qp.node for qp in pair))
    for qp, peer, psns in ((one, two, (1, 2)), (two, one, (2, 1))):
        path = alternate(qp.node, peer.node)
        qp.init(pm_state=DONE)
        fields = {
            "mtu": 3, "log_msg_max": 30, "remote_qpn": peer.qpn, "next_rcv_psn": psns[1],
            "min_rnr_nak": 1, "primary_address_path": qp.node.path_to(peer.node),
        }  # fmt: skip
        mask = ALT_PATH if step == "RTR" else 0
        with_path = {"secondary_address_path": path}
        first = fields | (with_path if mask else {})
        qp.node.driver.must(Op.INIT2RTR_QP, qpn=qp.qpn, opt_param_mask=mask, qpc=first)
        last = {
            "next_send_psn": psns[0], "retry_count": 7, "rnr_retry": 7, "pm_state": REARM,
            "primary_address_path": {"ack_timeout": 14},
        } | ({} if mask else with_path)  # fmt: skip
        mask = PM_STATE if mask else PM_STATE | ALT_PATH
        qp.node.driver.must(Op.RTR2RTS_QP, qpn=qp.qpn, opt_param_mask=mask, qpc=last)
    assert passes(one, two)
    assert [state(qp) for qp in (one, two)] == [(ARMED, False)] * 2


def is_global(frame):
    return frame[1] & LNH_MASK == LNH_GLOBAL


class TestPackets:
    @pytest.fixture
    def ends(self, packet_pair):
        return packet_pair

    def test_what_packets_say(self, pair, packet_wire, passes):
        """The bit is set by those who do not migrate."""
        one, two = pair
        seen = []
        packet_wire.tap = lambda frame: seen.append(frame) or [frame]
        assert passes(one, two)
        assert all(frame[9] & MIGRATED for frame in seen)
        seen.clear()
        load(one, two)
        assert passes(one, two)
        request, acknowledgement = seen
        assert not request[9] & MIGRATED
        assert acknowledgement[9] & MIGRATED

    def test_after_a_failure(self, armed, packet_wire, clock):
        """No response on the primary path, so the request goes by the other one."""
        one, two = armed
        packet_wire.tap = lambda frame: [frame] if is_global(frame) else []
        target = two.node.region(64)
        two.post_recv(target.sge())
        one.send(b"a message")
        for _ in range(60):
            one.node.settle()
            clock.advance(SECOND_NS // 10)
        (sent,), (received,) = one.cq.drain(), two.cq.drain()
        assert (sent.opcode, received.opcode) == (CqeOpcode.REQ, CqeOpcode.RESP_SEND)
        assert target.read(0, 9) == b"a message"
        for qp in armed:
            assert state(qp) == (DONE, True)
            assert migrations(qp.node) == [(EventType.PATH_MIG, qp.qpn)]

    def test_when_the_other_path_fails_too(self, armed, packet_wire, clock):
        one, _ = armed
        packet_wire.tap = lambda frame: []
        one.send(b"a message")
        for _ in range(60):
            one.node.settle()
            clock.advance(SECOND_NS // 10)
        (failed,) = one.cq.drain()
        assert failed.syndrome == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
        assert migrations(one.node) == [(EventType.PATH_MIG, one.qpn)]

    def test_a_long_message(self, armed, packet_wire, clock):
        """It goes on by the other path where it was."""
        one, two = armed
        lost = iter(range(1 << 20))
        packet_wire.tap = lambda frame: [frame] if is_global(frame) or next(lost) < 5 else []
        source, target = one.node.region(1 << 16), two.node.region(1 << 16)
        source.write(bytes(range(256)) * 256)
        one.write((target.key, target.va), source.sge())
        for _ in range(60):
            one.node.settle()
            clock.advance(SECOND_NS // 10)
        (sent,) = one.cq.drain()
        assert sent.opcode == CqeOpcode.REQ
        assert target.read() == source.read()

    def test_another_path_than_the_alternate_one(self, pair, packet_wire, clock, passes):
        """One event tells, however many packets come; they are dropped."""
        one, two = pair
        load(one, two)
        load(two, one, rgid_rip=bytes(16))
        assert passes(one, two)
        migrate(one)
        assert not passes(one, two)
        for _ in range(60):
            one.node.settle()
            clock.advance(SECOND_NS // 10)
        (failed,) = one.cq.drain()
        assert failed.syndrome == CqeSyndrome.TRANSPORT_RETRY_EXC_ERR
        assert migrations(two.node) == [(EventType.PATH_MIG_FAILED, two.qpn)]
        assert state(two) == (ARMED, False)
        assert two.node.hca.link.dropped["migrated to another path than the alternate one"] >= 2

    def test_another_partition(self, pair, passes):
        one, two = pair
        for node in (one.node, two.node):
            node.hca.ib.pkeys = (0xFFFF, 0x8005)
        load(one, two)
        load(two, one, pkey_index=1)
        assert passes(one, two)
        migrate(one)
        assert not passes(one, two)
        assert migrations(two.node) == [(EventType.PATH_MIG_FAILED, two.qpn)]

    def test_unreliable_connections(self, packet_pair, passes):
        pair = [node.queue_pair(QpType.UC) for node in packet_pair]
        connect(*pair)
        one, two = pair
        for qp, peer in (pair, pair[::-1]):
            load(qp, peer)
        assert passes(one, two)
        assert passes(two, one)
        assert [state(qp) for qp in pair] == [(ARMED, False)] * 2
        migrate(one)
        assert passes(one, two)
        assert state(two) == (DONE, True)


def test_roce(clock, passes):
    """The same between Ethernet functions, to another priority."""
    nodes = on_one_segment(clock)
    pair = [node.queue_pair() for node in nodes]
    connect(*pair)
    one, two = pair
    for qp, peer in (pair, pair[::-1]):
        load(qp, peer, eth_prio=2)
    assert passes(one, two)
    assert [state(qp)[0] for qp in pair] == [ARMED] * 2
    migrate(one)
    assert passes(one, two)
    ctx = two.node.driver.must(Op.QUERY_QP, qpn=two.qpn).qpc
    assert (ctx.pm_state, ctx.primary_address_path.eth_prio) == (DONE, 2)


def test_reset_forgets(armed, passes):
    one, two = armed
    for qp in armed:
        qp.to_reset()
    connect(one, two)
    assert passes(one, two)
    migrate(one)
    assert state(one)[1] is False


class TestRefused:
    @pytest.fixture
    def qp(self, qps):
        return qps[0]

    def test_a_state_that_there_is_not(self, qp, refused):
        refused(Status.BAD_PARAM_ERR, Op.RTS2RTS_QP, **modify(qp, pm_state=2))

    @pytest.mark.parametrize(
        "wrong", [{"vhca_port_num": 2}, {"pkey_index": 200}, {"src_addr_index": 3}]
    )
    def test_paths_that_cannot_be(self, qp, node, refused, wrong):
        path = alternate(node, node, **wrong)
        refused(Status.BAD_PARAM_ERR, Op.RTS2RTS_QP, **modify(qp, ALT_PATH, path=path))

    def test_datagrams(self, node, refused):
        qp = node.queue_pair(QpType.UD)
        qp.init(mtu=5, log_msg_max=12)
        qp.to_rtr(mtu=0, log_msg_max=0)
        qp.to_rts()
        path = alternate(node, node)
        refused(Status.BAD_PARAM_ERR, Op.RTS2RTS_QP, **modify(qp, ALT_PATH, path=path))

    @pytest.mark.parametrize("limits", [{"apm": 0}])
    def test_a_capability(self, qp, node, refused):
        path = alternate(node, node)
        refused(Status.BAD_PARAM_ERR, Op.RTS2RTS_QP, **modify(qp, ALT_PATH, path=path))
