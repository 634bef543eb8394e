"""What ports can make the subnet administrator do in one round of the loop: steps are counted."""

import heapq
from dataclasses import replace

import pytest
from helpers.net.subnet import Subnet, end_port

from emu.device.port.ib.port import DEFAULT_PKEY, PKEY_TABLE_ENTRIES
from emu.device.rounds.budget import POLL_BUDGET, SEGMENT_BUDGET
from emu.device.rounds.costs import LOG_PKEYS_PER_STEP, STEPS_PER_PORT, STEPS_PER_RECORD
from emu.driver.world.clock import HandClock
from emu.server.net.ib.sa import administrator, events, multicast, records, rmpp
from emu.server.net.ib.sa.group import GroupMember
from emu.server.net.ib.sa.worker import Worker
from layouts.wire.mads import MadStatus, Method
from layouts.wire.sa import SaAttr, node_rec

pytestmark = pytest.mark.hostile

GET_TABLE, SET = Method.GET_TABLE, Method.SET
MAX_PORTS = 1023
RECORDS_PER_ROUND = SEGMENT_BUDGET // STEPS_PER_RECORD
CREATE = {"qkey": 1, "pkey": DEFAULT_PKEY, "traffic_class": 0, "flow_label": 0, "sl": 0}


class Counting:
    """A record's declaration that counts the records that are made."""

    def __init__(self, prm):
        self._prm, self.count = prm, 0

    def new(self, **fields):
        self.count += 1
        return self._prm.new(**fields)


def one_round(clock):
    """What is due now; what that sets is the next round's."""
    clock.budget.begin()
    due = []
    while clock._timers and clock._timers[0][0] <= clock.ns:
        due.append(heapq.heappop(clock._timers)[2])
    for timer in due:
        if timer.callback:
            timer.callback()


def rounds(subnet, value):
    """How much ``value`` grows in each round until the administrator has nothing to do."""
    found, before = [], 0
    while True:
        found.append(value() - before)
        before = value()
        if not len(subnet.sa.worker):
            return found
        one_round(subnet.clock)


@pytest.fixture
def big():
    """As many ports as a fabric may have."""
    subnet = Subnet(MAX_PORTS)
    subnet.is_prompt = False
    return subnet


@pytest.fixture
def made(monkeypatch):
    """Counts the node records that are made."""
    counting = Counting(node_rec)
    monkeypatch.setattr(records, "node_rec", counting)
    return counting


def ask_for_nodes(subnet, lid):
    request = subnet.request(GET_TABLE, SaAttr.NODE_REC)
    subnet.send(lid, request)
    return request


def test_table_is_made_in_pieces(big, made):
    ask_for_nodes(big, 1)
    found = rounds(big, lambda: made.count)
    assert sum(found) == MAX_PORTS + 1
    assert max(found) <= RECORDS_PER_ROUND
    assert len(big.take(1)) == 1


def test_who_is_busy_makes_no_table(big, made):
    """One port asks a hundred times: what cannot be sent is not made, and others are served."""
    for _ in range(100):
        ask_for_nodes(big, 1)
        rounds(big, lambda: made.count)
    assert made.count <= rmpp.MAX_TRANSFERS_OF_A_PORT * (MAX_PORTS + 1)
    statuses = [mad.mad_hdr.status for mad in big.take(1)]
    assert statuses.count(MadStatus.BUSY) == 100 - rmpp.MAX_TRANSFERS_OF_A_PORT
    ask_for_nodes(big, 2)
    rounds(big, lambda: made.count)
    assert big.take(2)[0].mad_hdr.status == MadStatus.SUCCESS


def test_requests_wait_in_a_bounded_queue(big, made):
    for _ in range(4 * administrator.MAX_REQUESTS_OF_A_PORT):
        ask_for_nodes(big, 1)
    assert len(big.sa._requests) <= administrator.MAX_REQUESTS_OF_A_PORT
    ask_for_nodes(big, 2)
    for lid in range(3, 3 + administrator.MAX_REQUESTS // 10 + 10):
        for _ in range(10):
            ask_for_nodes(big, lid)
    assert len(big.sa._requests) <= administrator.MAX_REQUESTS
    assert max(rounds(big, lambda: made.count)) <= RECORDS_PER_ROUND
    assert big.take(2)[0].mad_hdr.status == MadStatus.SUCCESS


def test_a_host_leaves_requests_and_tables_to_the_others(big, made):
    """However many ports it has: virtual functions are hosts no more than their port is."""
    big.hosts = dict.fromkeys(range(1, 33), "a")
    for lid in range(1, 33):
        for _ in range(administrator.MAX_REQUESTS_OF_A_PORT):
            ask_for_nodes(big, lid)
    assert len(big.sa._requests) == administrator.MAX_REQUESTS // 2
    for lid in range(33, 37):
        ask_for_nodes(big, lid)
    rounds(big, lambda: made.count)
    assert len(big.sa.transfers) == rmpp.MAX_TRANSFERS // 2 + 4
    assert [big.take(lid)[0].mad_hdr.status for lid in range(33, 37)] == [MadStatus.SUCCESS] * 4


def test_request_that_is_repeated_while_it_waits(big, made):
    request = ask_for_nodes(big, 1)
    for _ in range(5):
        big.send(1, request)
    rounds(big, lambda: made.count)
    assert made.count == MAX_PORTS + 1
    assert len(big.take(1)) == 1


def test_paths_between_ports_with_many_partitions(monkeypatch):
    """Neither the ports that are looked at nor their P_Keys make a long round."""
    pkeys = tuple(range(1, PKEY_TABLE_ENTRIES + 1))
    subnet = Subnet(MAX_PORTS, pkeys=(DEFAULT_PKEY, *pkeys[1:]))
    subnet.is_prompt = False
    steps = []
    step = Worker._step
    monkeypatch.setattr(Worker, "_step", lambda self: (steps.append(1), step(self))[1])
    subnet.send(1, subnet.request(GET_TABLE, SaAttr.PATH_REC, slid=1))
    found = rounds(subnet, lambda: len(steps))
    assert max(found) <= RECORDS_PER_ROUND + 1
    assert sum(found) > MAX_PORTS


def swept(subnet):
    """What a sweep is charged."""
    before = subnet.clock.budget.steps
    subnet.sa.sweep()
    return subnet.clock.budget.steps - before


def test_a_sweep_is_charged_for_ports_and_their_partitions(big):
    assert swept(big) == MAX_PORTS * STEPS_PER_PORT + (MAX_PORTS >> LOG_PKEYS_PER_STEP)
    pkeys = tuple(range(0x8001, 0x8001 + PKEY_TABLE_ENTRIES))
    big.ports = [replace(port, pkeys=pkeys) for port in big.ports]
    of_pkeys = MAX_PORTS * PKEY_TABLE_ENTRIES >> LOG_PKEYS_PER_STEP
    assert swept(big) == MAX_PORTS * STEPS_PER_PORT + of_pkeys


def test_a_sweep_is_charged_for_what_ports_leave(big):
    (group,) = big.sa.groups._groups.values()
    group.members |= {port.gid: GroupMember(1, 0) for port in big.ports}
    big.ports = big.ports[:1]
    left = 1 + (MAX_PORTS - 1) // 32
    assert swept(big) == STEPS_PER_PORT + (MAX_PORTS - 1 + left) * STEPS_PER_RECORD
    assert swept(big) == STEPS_PER_PORT


def test_ports_leave_many_groups_in_several_rounds(big):
    """A request of one of them comes behind that."""
    (group,) = groups = [*big.sa.groups._groups.values()]
    for number in range(100):
        members = {port.gid: GroupMember(1, 0) for port in big.ports}
        mgid = group.mgid[:-1] + bytes((number,))
        groups.append(replace(group, mgid=mgid, mlid=number, is_permanent=False, members=members))
    big.sa.groups._groups |= {one.mgid: one for one in groups[1:]}
    kept, big.ports = big.ports, big.ports[:1]
    big.sa.sweep()
    big.ports = kept
    big.sa.sweep()
    joins = {"mgid": group.mgid, "port_gid": big.gid(2), "join_state": 1}
    big.send(2, big.request(SET, SaAttr.MC_MEMBER_REC, **joins))

    def left():
        return 100 * MAX_PORTS - sum(len(one.members) for one in groups[1:])

    found = rounds(big, left)
    assert max(found) <= 32 * RECORDS_PER_ROUND + MAX_PORTS
    assert sum(found) == 100 * (MAX_PORTS - 1)
    assert [*group.members] == [big.ports[1].gid]


def test_window_that_is_wide_open(big):
    """A receiver that has room for everything is not sent everything at once."""
    request = ask_for_nodes(big, 1)
    rounds(big, lambda: 0)
    big.take(1)
    big.send(1, big.ack(request, 1, 0xFFFFFFFF))
    sent = []

    def count():
        sent.extend(big.take(1))
        return len(sent)

    assert max(rounds(big, count)) <= RECORDS_PER_ROUND // 2 + 1
    assert [mad.rmpp_hdr.seg_num for mad in sent] == [*range(2, len(sent) + 2)]
    big.clock.advance(rmpp.ACK_TIMEOUT_NS)
    again = big.take(1)
    assert [mad.rmpp_hdr.seg_num for mad in again] == [*range(2, len(sent) + 2)]


def test_acknowledgement_while_a_window_is_being_sent(big):
    request = ask_for_nodes(big, 1)
    rounds(big, lambda: 0)
    big.take(1)
    big.send(1, big.ack(request, 1, 500))
    sent = big.take(1)
    assert len(sent) < 499
    big.send(1, big.ack(request, len(sent), 510))
    rounds(big, lambda: 0)
    sent += big.take(1)
    assert [mad.rmpp_hdr.seg_num for mad in sent] == [*range(2, 511)]


def subscribe(subnet, lid, number):
    subnet.send(
        lid,
        subnet.request(
            SET, SaAttr.INFORM_INFO, subscribe=1, is_generic=1, trap_type=0xFFFF,
            trap_num=0xFFFF, producer_type=0xFFFFFF, lid_range_begin=0xFFFF, resp_time=number,
        ),
    )  # fmt: skip


def test_notices_of_many_ports_for_many_subscribers():
    subnet = Subnet(20)
    for lid in range(1, 21):
        for number in range(events.MAX_SUBSCRIPTIONS // 20):
            subscribe(subnet, lid, number)
    assert len(subnet.sa.subscriptions) == events.MAX_SUBSCRIPTIONS // 20 * 20
    subnet.inboxes.clear()
    subnet.is_prompt = False
    subnet.ports += [end_port(lid) for lid in range(21, MAX_PORTS + 1)]
    subnet.sa.sweep()
    found = rounds(subnet, lambda: sum(map(len, subnet.inboxes.values())))
    assert 0 < max(found) <= RECORDS_PER_ROUND
    assert len(found) > 2
    for _ in range(events.MAX_TRIES):
        subnet.clock.ns += events.REPORT_TIMEOUT_NS
        one_round(subnet.clock)
        assert max(rounds(subnet, lambda: sum(map(len, subnet.inboxes.values())))[1:] or [0]) <= (
            RECORDS_PER_ROUND
        )


# Partitions.


def tables(number):
    """A full P_Key table of partitions that no other number has."""
    first = 1 + number * PKEY_TABLE_ENTRIES
    return (DEFAULT_PKEY, *range(first, first + PKEY_TABLE_ENTRIES - 1))


def broadcast_groups(subnet):
    return [group for group in subnet.sa.groups._groups.values() if group.is_permanent]


def test_port_that_flaps_with_new_partitions():
    """Broadcast groups are there as long as somebody has their partition."""
    subnet = Subnet(2)
    steady, port = subnet.ports
    for number in range(12):
        subnet.ports = [steady, replace(port, pkeys=tables(number))]
        subnet.sa.sweep()
        rounds(subnet, lambda: 0)
        assert len(broadcast_groups(subnet)) == PKEY_TABLE_ENTRIES
        subnet.ports = [steady]
        subnet.sa.sweep()
        rounds(subnet, lambda: 0)
        assert len(broadcast_groups(subnet)) == 1
    assert len(subnet.sa.groups) == 1


def test_partitions_change_behind_the_ports_that_leave(big):
    """A port that comes meanwhile has the broadcast group of its partition in the end."""
    ask_for_nodes(big, 1)
    kept = big.ports[:1]
    big.ports = [*kept, replace(big.ports[1], pkeys=tables(1))]
    big.sa.sweep()
    assert len(broadcast_groups(big)) == 1
    rounds(big, lambda: 0)
    assert len(broadcast_groups(big)) == PKEY_TABLE_ENTRIES


def test_partitions_of_a_port_that_stays():
    subnet = Subnet(2)
    steady, port = subnet.ports
    for number in range(3):
        subnet.ports = [steady, replace(port, pkeys=tables(number))]
        subnet.sa.sweep()
        assert len(broadcast_groups(subnet)) == PKEY_TABLE_ENTRIES


def test_many_partitions_leave_room_for_groups():
    subnet = Subnet(20)
    subnet.ports = [replace(port, pkeys=tables(port.lid)) for port in subnet.ports]
    subnet.sa.sweep()
    assert len(broadcast_groups(subnet)) == multicast.MAX_PARTITIONS
    mgid = bytes.fromhex("ff12a01b000000000000000000000001")
    answer = subnet.ask(
        1, SET, SaAttr.MC_MEMBER_REC, mgid=mgid, port_gid=subnet.gid(1), join_state=1, **CREATE
    )
    assert answer.status == MadStatus.SUCCESS


def test_group_of_a_partition_that_is_gone_ends_with_its_last_member():
    subnet = Subnet(2)
    first, second = subnet.ports
    subnet.ports = [replace(first, pkeys=tables(0)), replace(second, pkeys=tables(0))]
    subnet.sa.sweep()
    group = next(group for group in broadcast_groups(subnet) if group.pkey == 0x8001)
    subnet.sa.groups._groups[group.mgid].members[first.gid] = GroupMember(1, 0)
    subnet.ports = [first, second]
    subnet.sa.sweep()
    assert group.mgid in subnet.sa.groups._groups
    subnet.ports = [second]
    subnet.sa.sweep()
    assert len(subnet.sa.groups) == 1


# The worker itself.


def test_worker_does_small_jobs_at_once_and_sets_no_timer():
    clock, done = HandClock(), []
    worker = Worker(clock)

    def job(number):
        yield 1
        done.append(number)

    for number in range(10):
        worker.begin(job(number))
    assert done == [*range(10)]
    assert clock.waiting() == len(worker) == 0


def test_job_that_fails_is_gone_and_the_next_is_done():
    clock, done = HandClock(), []
    worker = Worker(clock)

    def bad():
        yield RECORDS_PER_ROUND
        raise ZeroDivisionError

    def good():
        done.append(1)
        yield 1

    worker.begin(bad())
    worker.begin(good())
    with pytest.raises(ZeroDivisionError):
        clock.advance(0)
    clock.advance(0)
    assert done == [1]


def endless(done):
    while True:
        done.append(1)
        yield 1


def test_worker_charges_the_loop_for_its_share():
    clock, done = HandClock(), []
    worker = Worker(clock)
    clock.budget.charge(100)
    worker.begin(endless(done))
    assert len(done) == RECORDS_PER_ROUND
    assert clock.budget.steps == 100 + SEGMENT_BUDGET
    worker.begin(endless(done))
    assert len(done) == RECORDS_PER_ROUND
    one_round(clock)
    assert len(done) == 2 * RECORDS_PER_ROUND
    assert clock.budget.steps == SEGMENT_BUDGET
    assert clock.waiting() == 1


def test_worker_waits_when_others_have_had_the_round():
    """What arrives late in a round is begun in the next one, and nothing is lost."""
    clock, done = HandClock(), []
    worker = Worker(clock)
    clock.budget.charge(POLL_BUDGET + 1)
    worker.begin(endless(done))
    assert not done
    assert len(worker) == 1
    clock.budget.begin()
    clock.budget.charge(POLL_BUDGET - 2 * STEPS_PER_RECORD + 1)
    worker.begin(endless(done))
    assert len(done) == 2
    one_round(clock)
    assert len(done) == 2 + RECORDS_PER_ROUND
