"""Links between functions' ports and what is behind them, on InfiniBand, RoCE and Ethernet."""

import pytest
from helpers.device.links import MS, SIZE, TEXT, World, infiniband, roce

from emu.device.faults import record
from emu.device.faults.link import PlannedLink
from emu.device.faults.parser import load
from emu.device.faults.plan import MAX_LINKS, Plan
from emu.device.port.eth.frame import Frame
from emu.driver.verbs.channels import Channel
from emu.server.net.link.direction import ACCOUNT
from emu.server.service.fault_options import FaultOptions
from emu.server.service.fault_session import FaultSession
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType


@pytest.fixture(params=[infiniband, roce], ids=lambda made: made.__name__)
def world(request, model, clock, wire, tmp_path):
    nodes, cabling, ports = request.param(model, clock, wire)
    functions = [node.function for node in nodes]
    path = tmp_path / "record"
    session = FaultSession(functions, FaultOptions(record=path), cabling)
    yield World(nodes=nodes, session=session, clock=clock, ports=ports, path=path)
    session.close()


@pytest.fixture
def roce_world(model, clock, wire):
    nodes, cabling, ports = roce(model, clock, wire)
    session = FaultSession([node.function for node in nodes], FaultOptions(), cabling)
    return World(nodes=nodes, session=session, clock=clock, ports=ports)


def test_a_delayed_write_takes_a_round_trip(world):
    channel = world.channel()
    source, target = world.region(world.nodes[0], TEXT), world.region(world.nodes[1])
    world.set(delay="5ms", direction="tx")
    channel.write((target.key, target.va), source.sge(0, 8))
    passed = world.until(channel.sent)
    assert 10 <= passed < 11
    world.set(function=1, direction="tx", delay="1ms")  # the acknowledgement's way
    channel.write((target.key, target.va), source.sge(0, 8))
    assert 6 <= world.until(channel.sent) < 7


def test_both_directions_of_both_ports_add_up(world):
    channel = world.channel()
    source, target = world.region(world.nodes[0], TEXT), world.region(world.nodes[1])
    world.set(delay="1ms")
    channel.write((target.key, target.va), source.sge(0, 8))
    assert 4 <= world.until(channel.sent) < 5


def test_without_properties_messages_are_direct_again(world):
    channel = world.channel()
    source, target = world.region(world.nodes[0], TEXT), world.region(world.nodes[1])
    world.set(delay="5ms")
    world.set()
    channel.write((target.key, target.va), source.sge(0, 8))
    channel.settle()
    assert len(channel.sent()) == 1
    assert world.counts() == {}


@pytest.mark.parametrize(
    "link",
    [{"loss": 5}, {"gemodel": [2, 30]}, {"duplicate": 10}, {"corrupt": 5},
     {"delay": "2ms", "jitter": "1ms"}, {"delay": "1ms", "reorder": 20, "gap": 3},
     {"rate": "100mbit"}, {"mark": 50}, {"delay": "1ms", "limit": 20}],
    ids=lambda link: " ".join(link),
)  # fmt: skip
def test_reliable_data_arrive_whole_whatever_the_link_does(world, link):
    channel = world.channel()
    source, target = world.region(world.nodes[0], TEXT), world.region(world.nodes[1])
    back = world.region(world.nodes[0])
    world.set(**link)
    channel.write((target.key, target.va), source.sge(0, SIZE))
    channel.read((target.key, target.va), back.sge(0, SIZE))
    done = []
    world.until(lambda: done.extend(channel.sent()) or len(done) == 2)
    assert target.read(0, SIZE) == back.read(0, SIZE) == TEXT
    counts = world.counts()
    assert counts["packets"] >= SIZE // 1024
    if link.keys() & {"loss", "gemodel"}:
        assert counts["lost"]


def test_rate_bounds_throughput(world):
    channel = world.channel()
    source, target = world.region(world.nodes[0], TEXT), world.region(world.nodes[1])
    world.set(function=0, direction="tx", rate="100mbit")
    channel.write((target.key, target.va), source.sge(0, SIZE))
    passed = world.until(channel.sent)
    assert SIZE * 8 / 100e6 * 1000 < passed < SIZE * 8 / 100e6 * 1000 * 1.2


def test_datagrams_pass_the_link_with_the_bytes_that_they_were_sent_with(world):
    channel = world.channel(QpType.UD)
    source, target = world.region(world.nodes[0], TEXT), world.region(world.nodes[1])
    world.set(direction="rx", delay="3ms")
    channel.post_recv(target.sge())
    channel.send(source.sge(0, 100))
    channel.settle()
    assert len(channel.sent()) == 1
    source.write(bytes(100))
    assert 3 <= world.until(channel.received) < 4
    assert target.read(channel.header, 100) == TEXT[:100]


def test_a_message_to_oneself_does_not_pass_the_link(world):
    node = world.nodes[0]
    channel = Channel(QpType.RC, node, node)
    source, target = world.region(node, TEXT), world.region(node)
    world.set(delay="1s", loss=50)
    channel.write((target.key, target.va), source.sge(0, SIZE))
    assert world.until(channel.sent) < 100
    assert target.read(0, SIZE) == TEXT


def test_the_same_seed_is_the_same_loss(model, clock, wire):
    def lost(seed):
        nodes, cabling, _ = roce(model, clock, wire)
        session = FaultSession([node.function for node in nodes], FaultOptions(), cabling)
        session.load(load(f"seed = {seed}"))
        world = World(nodes=nodes, session=session, clock=clock)
        channel = Channel(QpType.UC, *nodes, mtu=3)
        source, target = world.region(nodes[0], TEXT), world.region(nodes[1])
        world.set(loss=30)
        channel.write((target.key, target.va), source.sge(0, SIZE))
        world.run(5)
        return world.counts()

    assert lost(0) == lost(0)


def test_a_link_that_a_plan_sets_anew_has_the_plans_seed(model, clock, wire):
    """Whatever seed the link had before, so that a replay's first plan is enough."""

    def lost(*seeds):
        nodes, cabling, _ = roce(model, clock, wire)
        session = FaultSession([node.function for node in nodes], FaultOptions(), cabling)
        for seed in seeds:
            session.load(load(f"seed = {seed}\n[[link]]\nloss = 30\n"))
        world = World(nodes=nodes, session=session, clock=clock)
        channel = Channel(QpType.UC, *nodes, mtu=3)
        source, target = world.region(nodes[0], TEXT), world.region(nodes[1])
        channel.write((target.key, target.va), source.sge(0, SIZE))
        world.run(5)
        return world.counts()

    losses = {seed: lost(seed) for seed in range(4)}
    assert len({str(counts) for counts in losses.values()}) > 1
    assert all(lost(9, seed) == counts for seed, counts in losses.items())


@pytest.mark.parametrize("names", [("a", "a@g"), ("b",)], ids=["own", "other"])
def test_a_plan_whose_new_name_is_used_replaces_no_rule(world, names):
    """A name that the other guest's rules have gets a suffix, which may make another rule's."""
    rule = '[[rule]]\npoint="irq"\naction="drop"\nname="{}"\n'
    world.session.load(load("".join(map(rule.format, ("a", "b", "b@g")))), [1])
    world.session.load(load(rule.format("old")), [0])
    before, record = world.session.listing(), world.path.read_bytes()
    with pytest.raises(ValueError, match="@g'"):
        world.session.load(load("".join(map(rule.format, names))), [0], "@g")
    assert world.session.listing() == before
    assert world.path.read_bytes() == record


def test_what_is_on_the_way_is_on_the_ledger_and_outlives_a_reset(world):
    channel = world.channel()
    node = world.nodes[0]
    source, target = world.region(node, TEXT), world.region(world.nodes[1])
    world.set(function=0, delay="50ms")
    channel.write((target.key, target.va), source.sge(0, SIZE))
    channel.settle()
    held = node.hca.ledger.accounts[ACCOUNT]
    assert held > SIZE
    before = node.hca.ledger
    node.function.reset()
    world.run(120)
    assert ACCOUNT not in before.accounts
    assert ACCOUNT not in node.function.hca.ledger.accounts


def test_a_record_has_the_links(world):
    world.set(function=1, direction="rx", loss=2.5)
    world.nodes[0].driver.must(Op.QUERY_ISSI)
    world.set()
    world.session.close()
    told = record.read(world.path.read_text()).replayed()
    one, *cleared = told.link
    assert (one.function, one.direction, one.loss) == (1, "rx", 2.5)
    assert [link.function for link in cleared] == [0, 1]
    assert cleared[0].after == world.nodes[0].function.commands


def test_a_link_for_which_no_function_is_there(world):
    with pytest.raises(ValueError, match="a number below 2"):
        world.set(function=2, loss=1)
    assert world.session.links() == []


def test_a_plan_sets_links_when_their_time_has_come(model, clock, wire):
    nodes, cabling, _ = infiniband(model, clock, wire)
    after = nodes[0].function.commands + 2
    plan = load(
        '[[link]]\ndelay = "1ms"\nfunction = 1\n[[link]]\nfunction = 7\nloss = 1\n'
        f"[[link]]\nfunction = 0\nloss = 1\nafter = {after}\n"
    )
    functions = [node.function for node in nodes]
    session = FaultSession(functions, FaultOptions(plan), cabling)
    assert {link["function"] for link in session.links()} == {1}
    for _ in range(2):
        nodes[0].driver.must(Op.QUERY_ISSI)
    assert {link["function"] for link in session.links()} == {0, 1}
    assert functions[0].hca.probes.faults is None  # nothing more to come


def test_a_link_that_waits_replaces_one_that_waits_for_the_same_command(world):
    after = world.nodes[0].function.commands + 2
    for loss in range(1, 2 * MAX_LINKS):
        world.set(function=0, direction="tx", loss=loss % 100, after=after)
    world.set(function=0, direction="rx", loss=7, after=after)
    world.set(function=0, direction="tx", loss=5, after=after)
    for _ in range(2):
        assert world.session.links() == []
        world.nodes[0].driver.must(Op.QUERY_ISSI)
    losses = {link["direction"]: link["properties"]["loss"] for link in world.session.links()}
    assert losses == {"rx": 7, "tx": 5}


def test_links_that_wait_have_a_limit(world):
    first = world.nodes[0].function.commands + 1
    link = PlannedLink(function=0, loss=1)
    full = [link.model_copy(update={"after": first + number}) for number in range(MAX_LINKS)]
    world.session.load(Plan(link=full))
    world.session.load(Plan(link=full))  # the same ones again
    rule = load('[[rule]]\npoint="irq"\naction="drop"').rule
    behind = link.model_copy(update={"after": first + MAX_LINKS})
    for refused in (
        lambda: world.session.set_link(behind),
        lambda: world.session.load(Plan(rule=rule, link=[link, behind])),
    ):
        with pytest.raises(ValueError, match=f"limit of {MAX_LINKS} links that wait"):
            refused()
    assert (world.session.listing(), world.session.links()) == ([], [])
    world.set(function=1, loss=1, after=1 << 40)
    world.nodes[0].driver.must(Op.QUERY_ISSI)
    world.session.set_link(behind)


class Taken:
    """Takes the frames that come to any function."""

    def __init__(self):
        self.frames = []

    def sent(self, port, frame, carry):
        carry()

    def received(self, hca, frame, carry):
        self.frames.append(frame)


class TestEthernet:
    """Frames of the network interface."""

    @pytest.fixture
    def arrived(self, roce_world):
        """The frames that the links have let through; no function gets them."""
        taken = Taken()
        for port in roce_world.ports:
            port.watcher = taken
        return taken.frames

    def frame(self, world, payload=b"", tos=0, **about):
        source, target = (node.hca.nic_vport.permanent_address for node in world.nodes)
        ip = bytearray(
            b"\x45\0\0\0\0\0\0\0\x40\x11\0\0\x0a\0\0\x01\x0a\0\0\x02" + bytes(8) + payload
        )
        ip[1] = tos
        ip[2:4] = len(ip).to_bytes(2, "big")
        ip[24:26] = (len(ip) - 20).to_bytes(2, "big")
        ip[10:12] = (0xFFFF - int.from_bytes(ip[:20], "big") % 0xFFFF).to_bytes(2, "big")
        return Frame(target + source + b"\x08\x00" + bytes(ip), **about)

    def send(self, world, frame):
        world.ports[0].transmit(world.nodes[0].hca, frame)

    def test_delay_and_loss(self, roce_world, arrived):
        roce_world.set(function=0, direction="tx", delay="2ms", loss=20)
        for _ in range(200):
            self.send(roce_world, self.frame(roce_world, bytes(100)))
        assert arrived == []
        roce_world.clock.advance(2 * MS)
        assert 130 < len(arrived) < 190
        assert len(arrived) + roce_world.counts()["lost"] == 200

    def test_super_frames_become_the_packets_they_stand_for(self, roce_world, arrived):
        roce_world.set(function=1, direction="rx", loss=30)
        self.send(roce_world, self.frame(roce_world, bytes(32_000), gso_size=1000, checked=True))
        roce_world.clock.advance(MS)
        assert 15 < len(arrived) < 30
        assert all(not frame.gso_size and len(frame.data) == 1042 for frame in arrived)

    @pytest.mark.parametrize("tos", [1, 2])
    def test_a_mark_of_a_capable_sender(self, roce_world, arrived, tos):
        roce_world.set(mark=100, direction="tx")
        self.send(roce_world, self.frame(roce_world, bytes(100), tos=tos))
        roce_world.clock.advance(MS)
        (frame,) = arrived
        assert frame.data[15] & 3 == 3
        assert not int.from_bytes(frame.data[14:34], "big") % 0xFFFF

    def test_no_mark_of_another_sender(self, roce_world, arrived):
        roce_world.set(mark=100, direction="tx")
        sent = self.frame(roce_world, bytes(100))
        self.send(roce_world, sent)
        roce_world.clock.advance(MS)
        assert arrived == [sent]
        assert "marked" not in roce_world.counts()

    def test_corruption_is_behind_the_ethernet_header(self, roce_world, arrived):
        roce_world.set(corrupt=100, direction="tx")
        sent = self.frame(roce_world, bytes(100))
        for _ in range(20):
            self.send(roce_world, sent)
        roce_world.clock.advance(MS)
        for frame in arrived:
            changed = int.from_bytes(sent.data, "big") ^ int.from_bytes(frame.data, "big")
            assert changed.bit_count() == 1
            assert frame.data[:14] == sent.data[:14]
        assert len(arrived) == 20


def test_corrupted_packets_of_roce_are_found_by_their_crc(roce_world):
    channel = roce_world.channel()
    source = roce_world.region(roce_world.nodes[0], TEXT)
    target = roce_world.region(roce_world.nodes[1])
    roce_world.set(function=0, direction="tx", corrupt=30)
    channel.write((target.key, target.va), source.sge(0, SIZE))
    roce_world.until(channel.sent)
    dropped = roce_world.nodes[1].hca.roce.dropped
    assert dropped["bad ICRC"]
    assert target.read(0, SIZE) == TEXT
