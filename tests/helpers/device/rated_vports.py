"""Two vPorts of a switch whose frames go to the cable, and the elements that limit them."""

from __future__ import annotations

from emu.device.models import LINKS
from emu.device.models.switching import with_switch
from emu.driver.ethernet.flow_fields import match_misc, to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.interfaces import alloc_td, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.nodes.roce import RoceNode
from emu.driver.verbs.channels import Channel
from emu.driver.verbs.completions import CompletionQueue
from emu.driver.world.tap_wire import TapWire
from firmware_cmds.objects.scheduling import E_SWITCH
from firmware_cmds.objects.vport_scheduling import TSAR, VPORT
from helpers.device.adapters import Member, made_with_switch
from layouts.enums.caps import PortType
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType
from layouts.enums.qp import QpType

MODEL = with_switch(LINKS["connectx6dx"][PortType.ETH])
FIRST, SECOND, UPLINK = 5, 6, 0xFFFF
MISC = 1 << 1
MS = 1_000_000
SIZE = 1250
"""Bytes of a frame: 10,000 bits."""


class PausableWire(TapWire):
    """A cable behind which receivers may have no receive requests."""

    def __init__(self):
        super().__init__()
        self.paused = frozenset()
        """The last bytes of their addresses."""

    def credits_to(self, mac, packets, flow, priority):
        return 0 if mac[5] in self.paused else super().credits_to(mac, packets, flow, priority)


class Switch:
    """Two vPorts whose frames go to the cable, with a byte of each that tells whose it is."""

    def __init__(self, clock):
        self.wire, self.clock = PausableWire(), clock
        adapter = made_with_switch(self.wire, MODEL)
        self.manager = Member(adapter.manager, clock)
        self.driver = self.manager.driver
        self.members = {number: Member(adapter.add(number), clock) for number in (FIRST, SECOND)}
        fdb = Flows(self.driver, FlowTableType.FDB)
        table = fdb.table(0)
        criteria = match_misc(source_port=0xFFFF)
        group = fdb.group(table, 0, 15, enable=MISC, match_criteria=criteria)
        for number in self.members:
            value = match_misc(source_port=number)
            fdb.entry(table, number, group, to_vport(UPLINK), value=value)
        fdb.set_root(table)

    def queue(self, number, frames, tag=b"", **tis):
        """A queue of a vPort with so many frames to send, with a VLAN tag where one is given."""
        member = self.members[number]
        region = member.node.region(4096)
        addresses = b"\x02\0\0\0\0" + bytes((number,)) + b"\x02\0\0\0\0\x09"
        region.write(addresses + tag + b"\x88\xb5" + bytes((number,)))
        tisn = create_tis(member.driver, alloc_td(member.driver), **tis)
        cq = CompletionQueue(member.node, log_size=10)
        sq = SendQueue(member.node, tisn=tisn, log_size=10, cq=cq)
        for _ in range(frames):
            sq.send((SIZE, region.key, region.va), ring=False)
        sq.ring_doorbell()
        return sq

    def passed(self, ns, at=14):
        """How many frames of each vPort leave within some time; ``at`` has its number."""
        for _ in range(ns // MS):
            for member in self.members.values():
                member.node.settle()
            self.clock.advance(MS)
        self.frames = self.wire.sent()
        numbers = [frame.data[at] for frame in self.frames]
        return [numbers.count(number) for number in self.members]

    def element(self, element_type=TSAR, parent=0, **ctx):
        fields = {"element_type": element_type, "parent_element_id": parent, **ctx}
        return self.driver.must(
            Op.CREATE_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH, scheduling_context=fields
        ).scheduling_element_id

    def vport(self, number, parent, mbps=0, share=0):
        return self.element(
            VPORT, parent, element_attributes=number, max_average_bw=mbps, bw_share=share
        )

    def modify(self, element, mbps):
        self.driver.must(
            Op.MODIFY_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH,
            scheduling_element_id=element, modify_bitmask=2,
            scheduling_context={"max_average_bw": mbps},
        )  # fmt: skip

    def destroy(self, element):
        self.driver.must(
            Op.DESTROY_SCHEDULING_ELEMENT, scheduling_hierarchy=E_SWITCH,
            scheduling_element_id=element,
        )  # fmt: skip


class Roce:
    """A megabit of RoCE from one vPort to the other, which the switch lets pass both ways."""

    OCTETS = 125_000

    def __init__(self, switch, service=QpType.RC, gid=1, **options):
        """``gid`` is the index of both nodes' GIDs, ``options`` are those of a connection."""
        self.switch = switch
        fdb = Flows(switch.driver, FlowTableType.FDB)
        table = fdb.table(0)
        group = fdb.group(table, 0, 15, enable=MISC, match_criteria=match_misc(source_port=0xFFFF))
        for source, target in ((FIRST, SECOND), (SECOND, FIRST)):
            value = match_misc(source_port=source)
            fdb.entry(table, source, group, to_vport(target), value=value)
        fdb.set_root(table)
        members = switch.members.values()
        nodes = [RoceNode(member.function, member.driver, gid) for member in members]
        self.channel = Channel(service, *nodes, **options)
        self._regions = [node.region(1 << 17) for node in nodes]

    def write(self):
        """Post an RDMA WRITE."""
        source, target = self._regions
        self.channel.write((target.key, target.va), source.sge(0, self.OCTETS))

    def send(self, number, **to):
        """Post datagrams of 10,000 bits; ``to`` replaces fields of the address vector."""
        source, target = self._regions
        for _ in range(number):
            self.channel.post_recv(target.sge())
            self.channel.send(source.sge(0, SIZE), to=to)

    def time(self, is_done):
        """Return the milliseconds until ``is_done``, a function, returns a true value."""
        clock = self.switch.clock
        for passed in range(10_000):
            for _ in range(8):
                self.channel.left.settle()
                self.channel.right.settle()
                clock.advance(0)
            if is_done():
                return passed / 10
            clock.advance(MS // 10)
        raise AssertionError("the requests do not complete")
