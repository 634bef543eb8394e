"""Middle packets of RoCE that come together; what a driver sees is in ``test_alike.py``."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emu.device.engine.rc.packets.connection import connection_of
from emu.device.engine.rc.packets.rate import FlowRate
from emu.device.port.eth.congestion import with_mark
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.roce.reading import network_header, parse
from emu.device.port.eth.roce.trains import frames_of, parse_train
from emu.device.port.packet import BadPacketError
from emu.driver.ethernet.flows import Flows
from emu.driver.nodes.roce import on_a_cable
from emu.driver.verbs.channels import Channel
from emu.driver.world.cable import arrive, arrive_train
from layouts.enums.flow_table import FlowTableType
from layouts.enums.qp import QpState, QpType
from layouts.enums.vport import VportAdminState

MTU = 1024
SIZE = 60 * MTU
TEXT = random.Random(9).randbytes(SIZE)


class World:
    """Two nodes; ``trains`` are those that have passed."""

    def __init__(self, clock, *, takes_trains=True, version_1=False):
        left, right = on_a_cable(clock, takes_trains=takes_trains)
        for node in (left, right):
            node.index += 3 * version_1
        cable: Any = left.hca.switch.uplink
        self.cable = cable
        self.channel = Channel(QpType.RC, left, right, mtu=3)
        self.source, self.target = left.region(SIZE), right.region(SIZE)
        self.source.write(TEXT)
        self.trains = []
        vars(self.cable)["_keep_train"] = self._keep

    def _keep(self, pieces):
        self.trains.append(b"".join(pieces))
        self.cable.frames.append((self.cable, self.trains[-1]))
        return True

    def write(self):
        self.channel.write((self.target.key, self.target.va), self.source.sge())
        self.channel.settle()
        return [done.syndrome for done in self.channel.sent()]


@pytest.fixture
def world(clock):
    return World(clock)


@pytest.mark.parametrize("version_1", [False, True], ids=["v2", "v1"])
def test_a_train_stands_for_its_frames(clock, version_1):
    """Cut, it is the frames that would have gone alone, with their CRCs."""
    world = World(clock, version_1=version_1)
    assert world.write() == [0]
    assert world.target.read() == TEXT
    assert world.trains
    cut = [frame for train in world.trains for frame in frames_of(parse_train(memoryview(train)))]
    packets = [parse(frame, network_header(frame)) for frame in cut]
    assert b"".join(packet.payload for packet in packets) == TEXT[MTU:-MTU]
    alone = World(clock, takes_trains=False, version_1=version_1)
    alone.write()
    assert not alone.trains
    singles = [frame for frame in alone.cable.sent if len(frame) > MTU][1:-1]
    assert [len(frame) for frame in cut] == [len(frame) for frame in singles]
    # All but the flag that asks for an ACK, and so the CRC.
    end = cut[0].index(bytes(packets[0].payload)) - 4
    assert [frame[:end] for frame in cut] == [frame[:end] for frame in singles]


@pytest.mark.parametrize("why", ["faults", "tables", "rules", "round", "down", "vport"])
def test_what_is_to_see_frames_gets_frames(world, why):
    """The function takes them one by one, by the way of all frames."""
    hca, seen = world.channel.right.hca, []
    receive = hca.switch.receive
    hca.switch.receive = lambda frame: seen.append(frame.data) or receive(frame)
    world.write()
    seen.clear()
    if why == "round":
        hca.budget.steps = hca.budget.limit + 1
    elif why == "down":
        hca.nic_vport.roce_en = False
    elif why == "tables":
        hca.switch.is_decided = lambda _: True
    elif why == "vport":
        hca.nic_vport.switch_state = VportAdminState.DOWN
    elif why == "rules":
        flows = Flows(world.channel.right.driver, FlowTableType.RDMA_RX)
        flows.set_root(flows.table(0))
    else:
        hca.probes.faults = type("Faults", (), {"wants_packets": False, "show": lambda *_: None})()
    arrive_train(hca, memoryview(world.trains[0]))
    assert seen == [*frames_of(parse_train(memoryview(world.trains[0])))]
    hca.probes.faults = None


# Congestion.


def test_marked_packets_are_counted_one_by_one(world):
    world.write()
    congestion = world.channel.right.hca.roce.congestion
    marked = with_mark(world.trains[0])
    arrive_train(world.channel.right.hca, memoryview(marked))
    count = parse_train(memoryview(marked)).count
    assert congestion.counts["np_ecn_marked_roce_packets"] == count


def test_packets_at_a_limited_rate_go_alone(world):
    world.write()
    world.trains.clear()
    left, right = world.channel.left.hca, world.channel.right.hca
    path = right.qps.get(world.channel.receiver.qpn).ctx.primary_address_path
    arrive(left, Frame(right.roce.notification(path, world.channel.sender.qpn)))
    before = len(world.cable.sent)
    world.write()
    assert len(world.cable.sent) > before
    assert not world.trains


@pytest.mark.parametrize("after", [2, 20, 40])
def test_response_whose_rate_limit_ends_in_the_middle(world, after):
    """Its first packets go alone, the others may go as trains."""
    right = world.channel.right.hca
    world.target.write(TEXT)
    connection = connection_of(right, right.qps.get(world.channel.receiver.qpn))
    right.roce.congestion.rp.rpg_byte_reset = after * MTU // 64
    connection.limit(FlowRate(right.roce.congestion, right.clock.now_ns()))
    assert connection.rate is not None
    connection.rate.rate *= 0.9985
    world.channel.read((world.target.key, world.target.va), world.source.sge())
    world.channel.settle()
    assert [done.syndrome for done in world.channel.sent()] == [0]
    assert connection.rate is None
    assert world.source.read() == TEXT


# Trains that nobody of ours sends.


@pytest.mark.hostile
def test_train_for_somebody_else_has_no_effect(world):
    world.write()
    before = world.channel.right.hca.nic_vport.totals()[1].rdma_unicast.packets
    for at in (0, 33):  # MAC address, IPv4 address
        frame = bytearray(world.trains[0])
        frame[at] ^= 4
        arrive_train(world.channel.right.hca, memoryview(frame))
    assert world.channel.right.hca.nic_vport.totals()[1].rdma_unicast.packets == before


@pytest.mark.hostile
def test_train_longer_than_the_interface_takes(world):
    world.write()
    hca = world.channel.right.hca
    hca.eth.admin_mtu = 500
    arrive_train(hca, memoryview(world.trains[0]))
    count = parse_train(memoryview(world.trains[0])).count
    assert hca.nic_vport.received.too_long == count


@pytest.mark.hostile
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 70), st.integers(0, 255)), max_size=4), st.integers(-9, 9))
def test_damaged_trains(world, changes, more):
    """Nothing is raised, and memory that no message of the peer's is about stays as it is."""
    if not world.trains:
        world.write()
    frame = bytearray(world.trains[0])
    for at, value in changes:
        frame[at] = value
    frame += bytes(max(more, 0))
    view = memoryview(frame)[: more if more < 0 else None]
    arrive_train(world.channel.right.hca, view)
    assert world.target.read() == TEXT
    assert world.channel.receiver.state in (QpState.RTS, QpState.ERR)
    try:
        train = parse_train(view)
    except BadPacketError:
        return
    assert [len(one) for one in frames_of(train)] == [train.length] * train.count


@pytest.mark.hostile
@pytest.mark.parametrize("version_1", [False, True], ids=["v2", "v1"])
def test_headers_of_a_train_are_read_once(clock, version_1):
    """Another process may change them in shared memory as soon as they have been read."""
    world = World(clock, version_1=version_1)
    world.write()
    wanted = [*frames_of(parse_train(memoryview(world.trains[0])))]
    for at in range(70):
        frame = bytearray(world.trains[0])
        train = parse_train(memoryview(frame))
        frame[at] ^= 0xFF
        headers = len(train.head)
        assert [one[:headers] for one in frames_of(train)] == [one[:headers] for one in wanted]
        assert b"".join(train.pieces)[:headers] == world.trains[0][:headers]
        arrive_train(world.channel.right.hca, train)
    assert world.channel.receiver.state is QpState.RTS
