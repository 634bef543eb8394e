"""Packets of connections, which ports count before their counters are read."""

from emu.device.engine.qp.lifecycle import apply_transition
from emu.device.engine.rc.packets.tally import PacketTally
from emu.device.objects.queues.direct_path import MAX_LENGTHS
from emu.device.port.ib.counts import IbCounts
from emu.driver.nodes.roce import on_a_cable
from emu.driver.verbs.connect import connect

LENGTHS = 3 * MAX_LENGTHS + 5


def add(tally, octets):
    if octets in tally.lengths:
        tally.lengths[octets] += 1
    else:
        tally.count_first(octets)


def test_port_counts_before_its_counters_are_read():
    port = IbCounts()
    sent, received = PacketTally(port, port.count_sent), PacketTally(port, port.count_received)
    for octets in (60, 100, 60):
        add(sent, octets)
    add(received, 24)
    for _ in range(2):
        assert [(each.packets, each.octets) for each in port.totals()] == [(3, 220), (1, 24)]
    add(sent, 60)
    assert port.totals()[0].packets == 4


def test_few_lengths_wait():
    port = IbCounts()
    tally = PacketTally(port, port.count_sent)
    for octets in range(LENGTHS):
        add(tally, octets)
        assert len(tally.lengths) <= MAX_LENGTHS
        assert len(port.uncounted) <= 1 + octets // MAX_LENGTHS
    assert port.totals()[0].packets == LENGTHS


def test_packets_keep_the_priority_that_they_were_sent_with(clock):
    left, right = on_a_cable(clock)
    sender, receiver = left.queue_pair(), right.queue_pair()
    connect(sender, receiver)
    source, target = left.region(64), right.region(64)
    qp = left.hca.qps.get(sender.qpn)

    def write():
        sender.write((target.key, target.va), source.sge())
        left.settle()
        assert [done.syndrome for done in sender.cq.drain()] == [0]

    write()
    qp.encode()
    first, qp.ctx.primary_address_path.eth_prio = qp.marks.sent, 5
    apply_transition(left.hca, qp, qp.state)
    write()
    write()
    sent, _ = left.hca.nic_vport.totals()
    assert {number: each.packets for number, each in sent.priorities.items()} == {first: 1, 5: 2}
