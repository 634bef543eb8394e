"""Rules about packets, on functions whose packets are RoCE v2 frames."""

import json

import pytest

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.driver.verbs.connect import connect
from emu.server.service import views
from layouts.enums.cqe import CqeOpcode
from layouts.enums.qp import QpType

RULES = [
    'point="pkt.tx"\naction="drop"\nmatch.kind="WRITE"\nindex=[2, 5]',
    'point="pkt.rx"\naction="drop"\nmatch.kind="ACKNOWLEDGE"\nindex=1',
    'point="pkt.tx"\naction="duplicate"\nmatch.kind="WRITE"\nindex=[1, 3]',
    'point="pkt.tx"\naction="reorder"\nmatch.kind="WRITE"\nindex=2',
    'point="pkt.tx"\naction="corrupt"\nset.psn=5\nmatch.kind="WRITE"\nindex=2',
    'point="pkt.rx"\naction="rnr"\ntimer=1\nmatch.kind="WRITE"\nindex=1',
]
MS = 1_000_000


@pytest.fixture
def ends(roce_ends):
    return roce_ends


@pytest.fixture
def plan(ends):
    """Loads one rule's lines for both ends; returns the list of the faults that fire."""

    def load_it(text):
        fired = []
        for node in {id(node): node for node in ends}.values():
            injector = Injector(node.function, sink=fired.append)
            node.function.use_faults(injector)
            injector.load(load(f"[[rule]]\n{text}"))
        return fired

    return load_it


def run(node, clock, rounds=40):
    """Let packets, timers and work move on."""
    for _ in range(rounds):
        for _ in range(5):
            clock.advance(1000)
            node.settle()
        clock.advance(MS)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: " ".join(rule.split()[:2]))
def test_reliable_traffic_survives_what_happens_to_packets(ends, plan, clock, rule):
    fired = plan(rule)
    left, right = ends
    one, two = left.queue_pair(), right.queue_pair()
    connect(one, two, ack_timeout=8)
    source, target = left.region(16384), right.region(16384, va=0x6600_0000_0000)
    data = bytes(range(256)) * 64
    source.write(data)
    one.write((target.key, target.va), source.sge())
    run(left, clock)
    (entry,) = one.cq.drain()
    assert entry.opcode == CqeOpcode.REQ
    assert target.read() == data
    assert fired


@pytest.mark.parametrize("index", [0, 1, 2], ids=["IPv6", "IPv4", "VLAN"])
def test_payload_corrupted_in_silence(ends, plan, clock, index):
    """The invariant CRC is that of the changed packet: nobody notices."""
    plan('point="pkt.tx"\naction="corrupt"\nset.payload="deadbeef"\nmatch.kind="WRITE"')
    left, right = ends
    left.index = right.index = index
    one, two = left.queue_pair(), right.queue_pair()
    connect(one, two)
    source, target = left.region(4096), right.region(4096, va=0x6600_0000_0000)
    one.write((target.key, target.va), source.sge(0, 16))
    run(left, clock)
    assert target.read(0, 8) == bytes.fromhex("deadbeef00000000")
    assert not right.hca.roce.dropped


def test_datagrams_are_lost(ends, plan, clock):
    plan('point="pkt.tx"\naction="drop"\nmatch.service="UD"')
    left, right = ends
    qp = left.queue_pair(QpType.UD).init(q_key=1, mtu=5, log_msg_max=12)
    qp.to_rtr(mtu=0, log_msg_max=0).to_rts()
    qp.datagram(left.vector_to(right) | {"dqp_dct": qp.qpn, "key": 1 << 32}, b"lost")
    run(left, clock, 2)
    assert [entry.opcode for entry in qp.cq.drain()] == [CqeOpcode.REQ]


def test_status_tells_where_a_queue_pair_leads(ends):
    left, right = ends
    one, two = left.queue_pair(), right.queue_pair()
    connect(one, two)
    told = json.loads(b"".join(views.objects(left.function, "qp", 10)))
    items = told["qp"]["items"]
    (found,) = (item for item in items if item["handle"] == one.qpn)
    last = right.gids[1][-1]
    assert found["remote_address"] == f"::ffff:10.0.0.{last} at {right.mac.hex(':')}"


def test_status_tells_gids_and_what_was_dropped(ends):
    left, _ = ends
    left.hca.roce.dropped["bad ICRC"] += 1
    status = views.status(left.function, 0)
    told = status["roce"]
    mac, last = left.mac.hex(":"), left.gids[1][-1]
    assert told["enabled"]
    assert told["gids"]["1"] == {
        "gid": f"::ffff:10.0.0.{last}",
        "mac": mac,
        "vlan": None,
        "version": 2,
    }
    assert told["gids"]["4"] == told["gids"]["1"] | {"version": 1}
    assert told["gids"]["2"]["vlan"] == left.VLAN
    assert status["dropped"] == {"bad ICRC": 1}
