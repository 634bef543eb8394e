"""A segment: what it learns, where frames go, and what bounds it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.eth.frame import MAX_BYTES, Frame
from emu.driver.world.clock import HandClock
from emu.server.net.eth import addresses, loops
from emu.server.net.eth.port import SegmentPort, padded
from emu.server.net.eth.switch import SegmentSwitch

A, B, C = (bytes((2, 0, 0, 0, 0, number)) for number in (1, 2, 3))
EVERYONE = b"\xff" * 6
SECOND_NS = 1_000_000_000


class Port(SegmentPort):
    def __init__(self, name):
        super().__init__(name)
        self.got = []
        self.up = True

    @property
    def is_up(self):
        return self.up

    def deliver(self, frame):
        self.sent += 1
        self.got.append(frame)


class Link(Port):
    is_uplink = True


class Fabric(Link):
    is_fabric = True


class Net:
    def __init__(self, *ports):
        self.clock = HandClock()
        self.switch = SegmentSwitch(self.clock)
        self.ports = ports
        for port in ports:
            self.switch.add(port)

    def send(self, port, source, to, payload=b"", **rest):
        """Send a frame into the segment; returns the names of the ports where it came out."""
        for one in self.ports:
            one.got.clear()
        frame = Frame(padded(to + source + b"\x88\xb5" + payload), **rest)
        self.switch.forward(port, frame)
        assert all(got is frame for one in self.ports for got in one.got)
        return [one.name for one in self.ports for _ in one.got]


@pytest.fixture
def net():
    return Net(Port("a"), Port("b"), Link("x"))


def test_an_unknown_address_is_flooded_and_a_learned_one_is_not(net):
    a, b, _x = net.ports
    assert net.send(a, A, B) == ["b", "x"]
    assert net.send(b, B, A) == ["a"]
    assert net.send(a, A, B) == ["b"]
    assert net.send(a, A, EVERYONE) == ["b", "x"]
    assert net.send(a, A, b"\x33\x33\0\0\0\1") == ["b", "x"]


def test_a_frame_to_its_own_port_goes_nowhere(net):
    a, *_ = net.ports
    net.send(a, B, EVERYONE)
    assert net.send(a, A, B) == []


def test_two_functions_are_connected_as_by_a_cable(net):
    """Programs that measure send frames back as they are, or frames that are all zeros."""
    a, b, x = net.ports
    net.switch.remove(x)
    for source, to in ((A, B), (B, A), (A, A), (bytes(6), bytes(6)), (EVERYONE, B)):
        assert net.send(a, source, to) == ["b"]
        assert net.send(b, source, to) == ["a"]
    assert not a.dropped
    net.switch.add(x)
    net.send(a, C, EVERYONE)
    assert net.send(a, A, C) == []


def test_a_function_and_an_uplink_are_connected_as_by_a_switch(net):
    a, b, _x = net.ports
    net.switch.remove(b)
    net.send(a, B, EVERYONE)
    assert net.send(a, A, B) == []


def test_super_frames_pass_as_they_are(net):
    a, *_ = net.ports
    assert net.send(a, A, B, bytes(40_000), gso_size=1448, checked=True) == ["b", "x"]


def test_an_address_that_is_silent_for_long_is_forgotten(net):
    a, b, _x = net.ports
    net.send(b, B, A)
    net.clock.advance(addresses.AGE_NS)
    assert net.send(a, A, B) == ["b"]
    net.clock.advance(1)
    assert net.send(a, A, B) == ["b", "x"]
    assert not net.clock.waiting()  # and no timer was needed for it


def test_an_address_moves_between_functions_at_once(net):
    a, b, x = net.ports
    net.send(a, A, EVERYONE)
    net.send(b, A, EVERYONE)
    assert net.send(x, C, A) == ["b"]


def test_a_port_that_goes_down_gets_nothing_and_what_was_behind_it_is_unknown(net):
    a, b, x = net.ports
    net.send(b, B, A)
    b.up = False
    assert net.send(a, A, B) == []
    assert b.dropped["down"] == 1
    net.switch.forget(b)
    assert net.send(a, A, B) == ["x"]
    net.switch.remove(x)
    assert net.send(a, A, B) == []


def test_a_function_may_not_have_the_group_bit_in_its_source_address(net):
    a, *_ = net.ports
    assert net.send(a, EVERYONE, B) == []
    assert net.send(a, bytes(6), B) == []
    assert a.dropped["bad source"] == 2


def test_pause_frames_end_here_unless_this_is_no_more_than_a_cable(net):
    a, _, x = net.ports
    assert net.send(a, A, bytes.fromhex("0180c2000001")) == []
    assert a.dropped["pause"] == 1
    assert net.send(a, A, bytes.fromhex("0180c200000e")) == ["b", "x"]  # LLDP, as over a cable
    net.switch.remove(x)
    assert net.send(a, A, bytes.fromhex("0180c2000001")) == ["b"]


@pytest.mark.hostile
@pytest.mark.parametrize("size", [0, 13, MAX_BYTES + 1])
def test_lengths_that_no_frame_has(net, size):
    a, *_ = net.ports
    net.switch.forward(a, Frame(bytes(size)))
    assert a.dropped["bad length"] == 1
    assert not any(port.got for port in net.ports)


@pytest.mark.hostile
def test_a_flood_of_addresses_costs_bounded_memory_and_hides_nobody_else(net):
    a, b, x = net.ports
    net.send(b, B, EVERYONE)
    for number in range(3 * addresses.MAX_PER_PORT):
        net.send(x, bytes((2, 1, *number.to_bytes(4, "big"))), B)
    assert net.switch.about()["addresses"] == 1 + addresses.MAX_PER_PORT
    assert net.send(a, A, B) == ["b"]
    assert net.send(a, A, bytes((2, 1, *(number).to_bytes(4, "big")))) == ["x"]


@pytest.mark.hostile
def test_a_link_floods_no_more_than_so_many_frames_in_a_second(net):
    *_, x = net.ports
    out = sum(len(net.send(x, C, EVERYONE)) for _ in range(loops.FLOODED_PER_SECOND + 100))
    assert out == 2 * loops.FLOODED_PER_SECOND
    assert x.dropped["flood"] == 100
    net.clock.advance(SECOND_NS)
    assert net.send(x, C, EVERYONE) == ["a", "b"]


def test_a_frame_that_comes_back_by_a_link_changes_nothing(net):
    a, b, x = net.ports
    net.send(a, A, EVERYONE)
    assert net.send(x, A, EVERYONE) == []
    assert x.dropped["moved"] == 1
    assert net.send(b, B, A) == ["a"]
    net.clock.advance(loops.RECENT_NS)
    assert net.send(x, A, EVERYONE) == ["a", "b"]  # it has really moved
    assert net.send(b, B, A) == ["x"]


class Loop:
    """Two links into one outer network, which brings back by one what goes out by the other."""

    def __init__(self):
        self.net = Net(Port("a"), Link("x"), Link("y"))
        self.rounds = 0

    def run(self, most):
        a, x, y = self.net.ports
        self.net.send(a, A, EVERYONE)
        outside = [(y, frame) for frame in x.got] + [(x, frame) for frame in y.got]
        while outside and self.rounds < most:
            self.rounds += 1
            port, frame = outside.pop(0)
            x.got.clear()
            y.got.clear()
            self.net.switch.forward(port, frame)
            outside += [(y, one) for one in x.got] + [(x, one) for one in y.got]


@pytest.mark.hostile
def test_two_links_into_one_network_carry_no_storm(caplog):
    loop = Loop()
    for _ in range(100):
        loop.run(100_000)
    assert loop.rounds <= 200
    a, x, y = loop.net.ports
    assert x.dropped["loop"] or y.dropped["loop"]
    assert a.got == []
    lines = [line for line in caplog.messages if "loops back to another port" in line]
    assert 1 <= len(lines) <= 2
    loop.net.clock.advance(loops.BLOCKED_NS)
    before = x.sent
    loop.net.send(a, A, EVERYONE)
    assert x.sent == before + 1


def test_the_fabric_itself_is_not_left_alone():
    net = Net(Link("x"), Fabric("fabric"), Port("a"))
    x, fabric, a = net.ports
    for _ in range(2 * loops.MOVES):
        net.send(x, C, EVERYONE)
        net.send(fabric, C, EVERYONE)
    assert net.send(fabric, B, EVERYONE) == ["a"]
    assert x.dropped["loop"]
    assert net.send(a, A, B) == ["fabric"]


FRAMES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.binary(max_size=20),
        st.integers(0, 2 * SECOND_NS),
    ),
    max_size=60,
)


@pytest.mark.hostile
@given(FRAMES)
def test_random_bytes_end_nowhere_or_at_other_ports(frames):
    net = Net(Port("a"), Port("b"), Link("x"))
    for at, data, later in frames:
        for port in net.ports:
            port.got.clear()
        net.clock.advance(later)
        source = net.ports[at]
        net.switch.forward(source, Frame(data))
        assert not source.got
        assert all(len(port.got) <= 1 for port in net.ports)
