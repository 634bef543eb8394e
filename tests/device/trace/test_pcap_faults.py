"""The faults in a capture: as the comment of the packet that a rule acts on, or as an entry."""

from struct import unpack_from
from typing import NamedTuple

import pytest
from helpers.device.adapters import Member, made
from helpers.device.captured import NAMES

from emu.device.engine.eth.transmit import FRAME_TX_POINT
from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.port.eth.frame import Frame
from emu.driver.nodes.roce import on_one_segment
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.connect import connect
from emu.server.net.eth.segments import Segments
from emu.server.net.ib.local import LocalFabric
from emu.server.net.pcap import faults as pcap_faults
from emu.server.service.pcap import Capture, PcapOptions

PACKET, JOURNAL = 6, 9
COMMENT, FLAGS = 1, 2
SENT = 2
BTH = {"InfiniBand": 24, "RoCE": 42}
"""Offset of the base transport header: behind ERF and LRH, or behind Ethernet, IPv4 and UDP."""
SEND_ONLY, ACKNOWLEDGE = 4, 17
MS = 1_000_000


class Row(NamedTuple):
    """A packet of a capture, or an entry with ``opcode`` None."""

    text: str
    interface: int = -1
    is_sent: bool = False
    opcode: int | None = None
    psn: int = 0


def options(body, at):
    found = {}
    while code := unpack_from("<HH", body, at)[0]:
        size = unpack_from("<HH", body, at)[1]
        found[code] = body[at + 4 : at + 4 + size]
        at += 4 + (size + 3 & ~3)
    return found


def rows(data, bth):
    """Return the packets and entries of a file, in order."""
    found, at = [], 0
    while at < len(data):
        kind, length = unpack_from("<II", data, at)
        body, at = data[at + 8 : at + length - 4], at + length
        if kind == JOURNAL:
            fields = dict(line.split("=", 1) for line in body.rstrip(b"\0").decode().splitlines())
            found.append(Row(fields["MESSAGE"]))
        elif kind == PACKET:
            interface, _, _, size = unpack_from("<IIII", body)
            given = options(body, 20 + (size + 3 & ~3))
            is_sent = given[FLAGS][0] == SENT
            psn = int.from_bytes(body[20 + bth + 9 : 20 + bth + 12], "big")
            text = given.get(COMMENT, b"").decode()
            found.append(Row(text, interface, is_sent, body[20 + bth], psn))
    return found


class World:
    """Two functions with a capture of messages, and the rules of a plan."""

    def __init__(self, nodes, capture, path, clock, bth):
        self.nodes, self.capture, self.path, self.clock, self.bth = nodes, capture, path, clock, bth

    def plan(self, text):
        for index, node in enumerate(self.nodes):
            injector = Injector(node.function, index, self.capture.fault)
            node.function.use_faults(injector)
            injector.load(load(text))

    def send(self, count):
        """Send messages from the first to the second function, from PSN 0 on."""
        one, two = (node.queue_pair() for node in self.nodes)
        connect(one, two, psns=(0, 0x1000), ack_timeout=8)
        for _ in range(count):
            two.post_recv()
        for _ in range(count):
            one.send()
            self.settle(1)
        self.settle(60)
        return one.cq.drain()

    def settle(self, rounds):
        for _ in range(rounds):
            for _ in range(5):
                self.clock.advance(1000)
                self.nodes[0].settle()
            self.clock.advance(MS)

    def rows(self):
        self.capture.close()
        return rows(self.path.read_bytes(), self.bth)

    def marked(self):
        return [row for row in self.rows() if row.text]


def _roce_nodes(clock):
    nodes = on_one_segment(clock)
    for node in nodes:
        node.index = 1  # of an IPv4 GID
    return nodes


@pytest.fixture(params=["InfiniBand", "RoCE"])
def world(request, tmp_path, model, clock):
    wire = LocalFabric(clock)
    is_ib = request.param == "InfiniBand"
    nodes = two_nodes(model, clock, wire) if is_ib else _roce_nodes(clock)
    functions = [node.function for node in nodes]
    cables = [None if is_ib else function.hca.adapter.switch.uplink for function in functions]
    path = tmp_path / "p.pcap"
    capture = Capture(PcapOptions(path, messages=True), clock, functions, cables, wire, NAMES)
    return World(nodes, capture, path, clock, BTH[request.param])


LOST = """[[rule]]
name = "lost"
point = "pkt.tx"
action = "drop"
match.kind = "SEND"
index = 12
"""


def test_a_packet_that_a_rule_drops_has_the_comment_itself(world):
    """The first transmission of PSN 11 is in the capture, as sent and not as received."""
    world.plan(LOST)
    assert [entry.syndrome for entry in world.send(13)] == [0] * 13
    found = world.rows()
    (lost,) = [row for row in found if row.text]
    said = "fault lost: drop at pkt.tx (kind SEND, service RC)"
    assert lost == Row(said, 0, True, SEND_ONLY, 11)
    of_psn = [row.is_sent for row in found if row.opcode == SEND_ONLY and row.psn == 11]
    assert of_psn[:2] == [True, True]
    assert of_psn.count(False) == 1


@pytest.mark.parametrize("action", ["delay", "reorder", "duplicate", "corrupt"])
def test_a_packet_that_is_sent_later_or_changed_has_the_comment(world, action):
    more = {"delay": "ms = 3", "corrupt": 'set.payload = "00"'}.get(action, "")
    world.plan(LOST.replace('"drop"', f'"{action}"\n{more}'))
    world.send(14)
    (marked,) = world.marked()
    assert marked.text.startswith(f"fault lost: {action} at pkt.tx")
    assert marked[1:] == (0, True, SEND_ONLY, 11)


@pytest.mark.parametrize("action", ["drop", "delay"])
def test_a_packet_that_arrives_has_the_comment(world, action):
    more = "ms = 3" * (action == "delay")
    world.plan(LOST.replace("pkt.tx", "pkt.rx").replace('"drop"', f'"{action}"\n{more}'))
    world.send(13)
    (marked,) = world.marked()
    assert marked.text.startswith(f"fault lost: {action} at pkt.rx")
    assert marked[1:] == (1, False, SEND_ONLY, 11)


def test_a_response_that_a_rule_drops_has_the_comment(world):
    world.plan(LOST.replace("SEND", "ACKNOWLEDGE").replace("12", "2"))
    world.send(3)
    (marked,) = world.marked()
    assert marked[1:4] == (1, True, ACKNOWLEDGE)


def test_a_fault_without_a_packet_is_an_entry_of_its_own(world):
    """A failed completion is no comment of a packet that another queue pair sends."""
    world.plan('[[rule]]\nname="bad-completion"\npoint="cqe"\naction="fail"\ntimes=1\nfunction=0\n')
    assert world.send(1)[0].syndrome
    world.send(2)
    (marked,) = world.marked()
    assert marked.opcode is None
    assert marked.text.startswith("function 0: fault bad-completion: fail at cqe")


def test_a_virtual_function_has_its_name_on_the_interface_of_its_physical_one(tmp_path, clock):
    adapter = made(cable := Segments(clock).plug("function 0", 0))
    vf = adapter.add(1)
    pf, vf = Member(adapter.manager, clock).function, Member(vf, clock).function
    path, wire = tmp_path / "p.pcap", LocalFabric(clock)
    names = ["function 0", "function 0.vf0"]
    capture = Capture(PcapOptions(path), clock, [pf, vf], [cable, None], wire, names)
    vf.use_faults(injector := Injector(vf, 1, capture.fault))
    rules = [
        '[[rule]]\nname="off"\npoint="load"\naction="health"\n',
        '[[rule]]\nname="lost"\npoint="frame.tx"\naction="drop"\n',
    ]
    injector.load(load("".join(rules)))
    vf.hca.probes.faults.show(FRAME_TX_POINT, Frame(bytes(60)), vf.hca.vhca)
    capture.close()
    off, lost = rows(path.read_bytes(), 0)
    assert off.text.startswith("function 0.vf0: fault off: health at load")
    assert lost.text.startswith("function 0.vf0: fault lost: drop at frame.tx")
    assert (lost.interface, lost.is_sent) == (0, True)


def test_a_packet_that_is_never_sent_leaves_an_entry(world):
    world.plan(LOST.replace('"drop"', '"delay"\nms = 86400000'))
    world.send(13)
    (marked,) = world.marked()
    assert marked.text == "function 0: fault lost: delay at pkt.tx (kind SEND, service RC)"


@pytest.mark.hostile
def test_packets_that_rules_hold_back_are_bounded(world, monkeypatch):
    monkeypatch.setattr(pcap_faults, "_MAX_PENDING", 2)
    world.plan(LOST.replace('"drop"', '"delay"\nms = 86400000').replace("12", "[1, 2, 3, 4]"))
    world.send(2)
    assert all(len(one._pending) <= 2 for one in world.capture._interfaces)
    marked = world.marked()
    assert len(marked) == 4
    assert {row.opcode for row in marked} == {None}
