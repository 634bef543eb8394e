"""The ways of packets through a simulated subnet: what tables may cost, and what ports count."""

import pytest

from emu.device.rounds.budget import Budget
from emu.device.rounds.costs import STEPS_PER_LINK_FOUND
from emu.server.net.ib.subnet import routes as module
from emu.server.net.ib.subnet.nodes import built
from emu.server.net.ib.subnet.routes import (
    MAX_BRANCHES,
    MAX_KEPT,
    MAX_LINKS,
    MAX_OWED,
    NOWHERE,
    RELAY_ERRORS,
    Routes,
)
from emu.server.net.ib.subnet.topology import parse
from layouts.enums.vport import PortState
from layouts.wire.bth import MULTICAST_LID

pytestmark = pytest.mark.hostile

RING = """
Switch 4 "one"
[1] "two"[2]
[3] "source"[1]
Switch 4 "two"
[1] "three"[2]
Switch 4 "three"
[1] "one"[2]
Hca 1 "source"
"""
SOURCE = 3


def cables(text):
    made = built(parse(text), {})
    for node in made.nodes:
        for port in node.ports:
            if port.info.port_state != PortState.DOWN:
                port.info.port_state = PortState.ACTIVE
    return made


@pytest.fixture
def ring():
    """Three switches whose tables lead each LID in a circle."""
    made = cables(RING)
    for node in made.nodes[:SOURCE]:
        node.tables.info.linear_fdb_top = 0xBFFF
        node.tables.linear = bytearray(b"\x01") * 0xC000
    return made


def sent(routes, lid, octets=100):
    path = routes.route((SOURCE, 1), lid)
    routes.passes(path, octets)
    return path


def total(routes, name):
    return sum(counts[name] for counts in routes.counts.values())


def test_ways_in_a_circle_end(ring):
    routes = Routes(ring, Budget())
    path = sent(routes, 7)
    assert (path.end, len(path.sent), path.dropped[2]) == (NOWHERE, MAX_LINKS, RELAY_ERRORS)
    routes.settle()
    assert total(routes, "port_xmit_packets") == total(routes, "port_rcv_packets") == MAX_LINKS


def test_what_is_kept_is_bounded_by_the_links(ring):
    routes = Routes(ring, Budget())
    for lid in range(1, 3000):
        sent(routes, lid)
        ways = routes._paths.values()
        assert sum(len(path.sent) + 1 for path in ways) <= MAX_KEPT + MAX_LINKS


@pytest.mark.parametrize("changes", [False, True])
def test_each_round_adds_up_a_share(ring, changes):
    """Nobody has to add up the packets of thousands of ways, and none of them is forgotten."""
    round_ = Budget()
    routes = Routes(ring, round_)
    steps = []
    for lid in range(1, 1000):
        before = round_.steps
        sent(routes, lid)
        sent(routes, lid)
        steps.append(round_.steps - before)
        ring.generation += changes
    assert max(steps) <= 2 * (MAX_OWED + 2 * MAX_LINKS + 2)
    before = round_.steps
    routes.settle()
    assert round_.steps - before <= 2 * (MAX_OWED + MAX_LINKS + 1)
    assert total(routes, "port_xmit_packets") == 2 * 999 * MAX_LINKS


def parallel(switches, count):
    """A chain of switches with so many cables between each two; all exits are of one group."""
    lines = []
    for number in range(switches):
        lines.append(f'Switch 254 "s{number}"')
        if not number:
            lines.append('[254] "source"[1]')
        if number + 1 < switches:
            lines += [f'[{port}] "s{number + 1}"[{port + count}]' for port in range(1, count + 1)]
    made = cables("\n".join([*lines, 'Hca 1 "source"']))
    for node in made.nodes[:switches]:
        node.tables.multicast[0] = (1 << 255) - 2
    return made


@pytest.mark.parametrize(("switches", "count"), [(2, 120), (30, 120), (30, 2)])
def test_multicast_over_parallel_cables(switches, count, monkeypatch):
    """Each exit with a cable is looked at once, however many cables its packets come by."""
    made = parallel(switches, count)
    looks = []
    across = module.Routes._across
    monkeypatch.setattr(
        module.Routes, "_across", lambda *args: (looks.append(args[1:]), across(*args))[1]
    )
    tree = Routes(made, Budget()).tree(switches, MULTICAST_LID)
    assert len(tree.sent) == min(2 * count * (switches - 1) + 2, MAX_BRANCHES)
    assert len(set(tree.received)) == len(tree.received)
    assert len(looks) == len(set(looks)) <= 2 * (count * (switches - 1) + 1)


def test_multicast_goes_by_no_port_twice_and_not_back():
    """A packet that comes to a switch by two cables leaves by each port that is not the first's."""
    made = parallel(2, 2)
    tree = Routes(made, Budget()).tree(2, MULTICAST_LID)
    assert sorted(tree.sent) == [(0, 1), (0, 2), (0, 254), (1, 3), (1, 4), (2, 1)]
    assert sorted(tree.received) == [(0, 1), (0, 2), (0, 254), (1, 3), (1, 4), (2, 1)]
    assert tree.ends == (2,)


def test_a_tree_is_charged():
    round_ = Budget()
    Routes(parallel(30, 120), round_).tree(30, MULTICAST_LID)
    assert round_.steps >= 2 * MAX_BRANCHES


def test_ports_that_are_not_active_are_charged(monkeypatch):
    """A manager gives a group all ports, and activates one link between each two switches."""
    monkeypatch.setattr(module, "MAX_EXITS", 1000)
    made = parallel(30, 120)
    for node in made.nodes[:30]:
        for number in (*range(2, 121), *range(122, 241)):
            node.ports[number].info.port_state = PortState.INIT
    round_ = Budget()
    tree = Routes(made, round_).tree(30, MULTICAST_LID)
    assert round_.steps == 1000 * STEPS_PER_LINK_FOUND
    assert 0 < len(tree.sent) < 20
