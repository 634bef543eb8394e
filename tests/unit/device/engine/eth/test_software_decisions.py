"""Decisions that are kept about packets in tables of software: the same as those made anew."""

import random

import pytest

from emu.device.engine.eth.ste.definers import DEFINERS
from emu.device.engine.eth.steering import domain as steering
from emu.device.engine.eth.steering.rewrite import rewrite
from emu.device.models import LINKS
from emu.device.models.software_steering import with_software_steering
from emu.device.objects.eth.flow_counter import FlowCounter
from emu.device.objects.eth.icm_addresses import IcmKind, icm_address
from emu.device.objects.memory.sw_icm import HEADER_MODIFY
from emu.device.port.eth.headers import FrameError, Marked, parse
from emu.driver.ethernet.flow_fields import to_tir
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import MACS, TCP, UDP, EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_rq
from emu.driver.ethernet.steering_entries import SoftwareTables, entry
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.enums.tir import DispType

RX_DROP = icm_address(IcmKind.RX_DROP)
LOOKUPS = [0x05, 0x03, 0x0B, 0x07, 0x0D, 0x09, 0x0107, 0x0109, 0x0113, 0x010F, 0x0103, 0x06, 0x08]
CHANGES = {
    "source": b"\x06\x40\x20\x20\x0a\0\0\x63",
    "half of it": b"\x06\x40\x20\x10\0\0\0\7",
    "ttl": b"\x07\x0e\x28\x08\0\0\0\xff",
    "port": b"\x06\x18\x20\x10\0\0\x12\xb5",
    "tcp": b"\x07\x5e\x20\x20\0\0\0\1",
    "flags": b"\x06\x19\x30\x09\0\0\0\2",
    "register": b"\x06\x90\x20\x20\0\0\0\5",
    "copy": b"\x05\x90\x20\x20\0\x41\x20\0",
    "copy back": b"\x05\x08\x20\x20\0\x90\x20\0",
    "id": b"\x06\x02\x20\x0c\0\0\0\x09",
}
"""Lists of one action (dr_ste_v1.c: dr_ste_v1_action_modify_field_arr)."""
MOVES = {
    "push": b"\x0a\x00\x0c\x00\x81\x00\x20\x05",
    "pop": b"\x08\x02\x00\x02",
    "decap": b"\x09\x00\x13\x00",
    "shorter": b"\x08\x07\x00\x02",
    "tag": b"\x0c\x00\x00\x2a",
}


def packets():
    """Frames that differ in one thing each, some of them in a tunnel."""
    inner = EthPacket(protocol=UDP, ports=b"\x12\x34\0\5").frame()
    tunnel = bytes.fromhex("0800000000002a00") + inner
    found = [
        EthPacket(), EthPacket(source=b"\x0a\0\0\x07"), EthPacket(destination=b"\x0a\0\0\x08"),
        EthPacket(ports=b"\0\1\0\2"), EthPacket(sequence=9), EthPacket(flags=2), EthPacket(tos=4),
        EthPacket(tags=((0x8100, 5),)), EthPacket(tags=((0x8100, 9), (0x8100, 5))),
        EthPacket(tags=((0x8100, 9), (0x8100, 5), (0x8100, 7))),
        EthPacket(tags=((0x8100, 9), (0x8100, 5), (0x8100, 8))), EthPacket(identifier=5),
        EthPacket(protocol=UDP), EthPacket(protocol=UDP, ports=b"\0\1\x12\xb5", payload=tunnel),
        EthPacket(protocol=UDP, ports=b"\0\1\x12\xb5", payload=tunnel[:24] + b"x" + tunnel[25:]),
        EthPacket(protocol=UDP, ports=b"\0\1\x12\xb5", payload=tunnel[:20]),
        EthPacket(protocol=UDP, ports=b"\0\1\0\5", payload=tunnel),
        EthPacket(version=6, source=bytes(16), destination=bytes(15) + b"\1"),
        EthPacket(version=6, source=bytes(16), destination=bytes(15) + b"\2"),
        EthPacket(fragment=7), EthPacket(protocol=1, payload=bytes(8)),
    ]  # fmt: skip
    frames = [one.frame() for one in found]
    frames.append(MACS[:6] + bytes(6) + frames[0][12:])
    frames.append(MACS + b"\x08\x06" + bytes(46))
    return frames


FRAMES = packets()


@pytest.fixture
def model():
    return with_software_steering(LINKS["connectx7"][PortType.ETH])


class Maze:
    """Random entries, which lead to each other, to queues and to drops."""

    def __init__(self, node, rng):
        self.tables, self.rng, self.driver = SoftwareTables(node), rng, node.driver
        td = alloc_td(self.driver)
        self.ends = [RX_DROP]
        for _ in range(3):
            ctx = {
                "disp_type": DispType.DIRECT, "transport_domain": td,
                "inline_rqn": create_rq(self.driver),
            }  # fmt: skip
            made = self.driver.must(Op.CREATE_TIR, ctx=ctx)
            self.ends.append(made.icm_address_39_32 << 32 | made.icm_address_31_0)
        flows = Flows(self.driver)
        table = flows.table(50, log_size=2)
        group = flows.group(table, 0, 3, udp_dport=0xFFFF, ip_protocol=0xFF)
        flows.entry(table, 0, group, to_tir(made.tirn), udp_dport=0x12B5, ip_protocol=UDP)
        flows.entry(table, 1, group, to_tir(made.tirn - 1), udp_dport=5, ip_protocol=UDP)
        answer = self.driver.must(
            Op.QUERY_FLOW_TABLE, table_type=FlowTableType.NIC_RX, table_id=table
        ).flow_table_context
        self.ends.append(answer.sw_owner_icm_root_0)
        self.places = list(self.ends)
        for number, (_, action) in enumerate(sorted(CHANGES.items())):
            self.tables.write(HEADER_MODIFY.start + 64 * number, action, HEADER_MODIFY)

    def _action(self):
        name = self.rng.choice([*CHANGES, *MOVES, "", ""])
        if name in CHANGES:
            return b"\x0f\x01" + sorted(CHANGES).index(name).to_bytes(2, "big")
        return MOVES.get(name, b"")

    def _match(self):
        lookup = self.rng.choice(LOOKUPS)
        mask = bytes(self.rng.choice((0, 0, 0xFF)) for _ in range(16))
        headers = Marked(parse(self.rng.choice(FRAMES)), {})
        value = DEFINERS[lookup].value(headers, int.from_bytes(mask, "big")).to_bytes(16, "big")
        tag = bytes(a & b for a, b in zip(value, mask, strict=True))
        return {"lookup": lookup, "mask": mask, "tag": tag}

    def add(self):
        """One more entry, or a table of four behind it."""
        pick = self.rng.choice
        made = {"miss": pick(self.places), "action": self._action()} | self._match()
        if self.rng.random() < 0.3:
            size = 4
            table = self.tables.place(
                *(entry(**self._match(), miss=pick(self.places), hit=pick(self.places))
                  for _ in range(size))
            )  # fmt: skip
            made |= {
                "hit": table, "size": size, "next_lookup": pick(LOOKUPS),
                "byte_mask": self.rng.getrandbits(16),
            }  # fmt: skip
        else:
            made["hit"] = pick(self.places)
        self.places.append(self.tables.place(entry(**made)))
        return self.places[-1]


def become(decision, headers):
    """What is delivered of a packet, and where."""
    found = []
    for at, (target, tag) in enumerate(decision.deliveries):
        steps = decision.rewrites[at] if decision.rewrites else None
        try:
            after = rewrite(Marked(headers, {}), steps).frame if steps else headers.frame
        except FrameError:
            after = None
        found.append((target.handle, tag, after))
    return found, decision.missed


@pytest.mark.parametrize("seed", range(60))
def test_kept_as_made_anew(node, seed):
    rng = random.Random(seed)
    maze = Maze(node, rng)
    for _ in range(12):
        root = maze.add()
    flows = Flows(node.driver)
    flows.set_root(maze.tables.table(root))
    domain = node.hca.flow_domains[FlowTableType.NIC_RX]
    anew = {}
    for frame in FRAMES:
        domain.flush()
        anew[frame] = become(steering.decide(domain, parse(frame), len(frame)), parse(frame))
    domain.flush()
    for frame in rng.choices(FRAMES, k=150):
        kept = steering.decide(domain, parse(frame), len(frame))
        assert become(kept, parse(frame)) == anew[frame]


@pytest.mark.pure("it replaces a method of the steering memory")
def test_most_are_kept(node):
    """Of what drivers do: addresses and ports matched, a table hashed, fields changed."""
    maze = Maze(node, random.Random(0))
    byte_mask = 0xFFFF
    headers = parse(FRAMES[0])
    tag = headers.addresses + headers.ports + b"\0\0\0" + bytes((TCP,))
    last = maze.tables.place(entry(hit=maze.ends[1], action=MOVES["pop"]))
    rules = [entry(0x07, mask=b"\xff" * 12 + b"\0\0\0\xff", tag=tag, miss=RX_DROP, hit=last)] * 4
    table = maze.tables.place(*rules, size=4)
    first = entry(hit=table, size=4, next_lookup=0x07, byte_mask=byte_mask, action=b"\x0f\1\0\0")
    Flows(node.driver).set_root(maze.tables.table(maze.tables.place(first)))
    domain = node.hca.flow_domains[FlowTableType.NIC_RX]
    memory = node.hca.steering_memory
    walks = []
    walk = memory.walk
    memory.walk = lambda *given: walks.append(1) or walk(*given)
    for frame in FRAMES * 2:
        steering.decide(domain, parse(frame), len(frame))
    assert len(walks) < len(FRAMES)


def test_what_goes_is_not_found_again(node):
    """A queue's TIR; and a change of an entry counts from the next packet on."""
    maze = Maze(node, random.Random(0))
    at = maze.tables.place(entry(hit=maze.ends[1]))
    Flows(node.driver).set_root(maze.tables.table(at))
    domain = node.hca.flow_domains[FlowTableType.NIC_RX]
    headers = parse(FRAMES[0])
    assert steering.decide(domain, headers, 60).deliveries
    assert domain.decisions
    node.driver.must(Op.DESTROY_TIR, tirn=(maze.ends[1] & 0xFFFFFFFF) >> 6)
    assert not steering.decide(domain, headers, 60).deliveries
    maze.tables.write(at, entry(hit=maze.ends[2]))
    (one,) = steering.decide(domain, headers, 60).deliveries
    assert one[0].handle == (maze.ends[2] & 0xFFFFFFFF) >> 6


def test_a_new_counter_with_an_old_number(node):
    maze = Maze(node, random.Random(0))
    flows = Flows(node.driver)
    number = [flows.counter() for _ in range(2)][1]
    flows.set_root(maze.tables.table(maze.tables.place(entry(hit=RX_DROP, counter_id=number))))
    domain = node.hca.flow_domains[FlowTableType.NIC_RX]
    steering.decide(domain, parse(FRAMES[0]), 60)
    assert flows.query_counter(number) == (1, 60)
    table = node.hca.objects[FlowCounter]
    node.driver.must(Op.DEALLOC_FLOW_COUNTER, flow_counter_id=number)
    while flows.counter() != number:
        assert len(table) < table.limit - table.first
    steering.decide(domain, parse(FRAMES[0]), 60)
    assert flows.query_counter(number) == (1, 60)


def test_more_parts_than_are_learnt(node, monkeypatch):
    """Then nothing more is kept, and all is as right as before."""
    monkeypatch.setattr(steering, "MAX_LEARNED", 1)
    maze = Maze(node, random.Random(0))
    rule = entry(0x07, mask=b"\xff" * 12, tag=parse(FRAMES[0]).addresses + parse(FRAMES[0]).ports,
                 miss=RX_DROP, hit=maze.ends[1])  # fmt: skip
    Flows(node.driver).set_root(maze.tables.table(maze.tables.place(rule)))
    domain = node.hca.flow_domains[FlowTableType.NIC_RX]
    for _ in range(2):
        assert steering.decide(domain, parse(FRAMES[0]), 60).deliveries
        assert not steering.decide(domain, parse(FRAMES[3]), 60).deliveries
    assert not domain.decisions
