"""The forwarding database of legacy mode, as core/esw/legacy.c and core/eswitch.c make it."""

import pytest
from helpers.device.adapters import Member, made_with_switch

from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.flow_fields import match_misc, to_table, to_tir, to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_rq, create_tis
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.world.tap_wire import TapWire
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType

PF, ONE, TWO, UPLINK = 0, 1, 2, 0xFFFF
OUTER, MISC = 1, 2
SIZE = 16
ALL_MULTICAST, PROMISCUOUS = SIZE - 2, SIZE - 1
"""Indices of the entries behind those for addresses."""
MACS = {number: bytes((2, 0, 0, 0, 0, 0x10 + number)) for number in (PF, ONE, TWO)}
BROADCAST, GROUP, STRANGER = b"\xff" * 6, bytes.fromhex("01005e000001"), b"\x02" + b"\x77" * 5


def mac(address):
    return {"dmac_47_16": int.from_bytes(address[:4]), "dmac_15_0": int.from_bytes(address[4:])}


def frame(destination, source=b"\x02" + b"\x55" * 5):
    data = EthPacket(payload=b"legacy mode" * 5).frame()
    return destination + source + data[12:]


class Legacy:
    """A physical function, two virtual ones, and the tables of its driver in legacy mode."""

    def __init__(self, clock):
        self.wire = TapWire()
        adapter = made_with_switch(self.wire)
        places = adapter.manager, adapter.add(ONE), adapter.add(TWO)
        self.members = [Member(place, clock) for place in places]
        self.queues = [
            SendQueue(one.node, tisn=create_tis(one.driver, alloc_td(one.driver)))
            for one in self.members
        ]
        self.flows = Flows(self.members[PF].driver, FlowTableType.FDB)
        self.fdb = self.flows.table(1)
        self.vepa = self.flows.table(0, 1, self.fdb)
        self.flows.set_root(self.vepa)
        self.addresses = self.flows.group(self.fdb, 0, SIZE - 3, **mac(BROADCAST))
        multicast = self.flows.group(
            self.fdb, ALL_MULTICAST, ALL_MULTICAST, **mac(bytes.fromhex("010000000000"))
        )
        criteria = match_misc(source_port=0xFFFF)
        rest = self.flows.group(
            self.fdb, PROMISCUOUS, PROMISCUOUS, enable=MISC, match_criteria=criteria
        )
        self.groups = {ALL_MULTICAST: multicast, PROMISCUOUS: rest}
        for number, address in MACS.items():
            self.address(number, address, number)
        self.address(PROMISCUOUS - 3, BROADCAST, PF, ONE, TWO, UPLINK)

    def address(self, index, address, *vports):
        to = map(to_vport, vports)
        self.flows.entry(self.fdb, index, self.addresses, *to, **mac(address))

    def send(self, source, data):
        """Where a frame of a vPort or of the uplink arrives."""
        before = self._received()
        if source == UPLINK:
            self.members[PF].hca.switch.receive(Frame(data))
        else:
            self.queues[source].send(data)
            self.members[source].node.settle()
        after = self._received()
        arrived = [number for number, (old, new) in enumerate(zip(before, after)) if new > old]
        left = [one.data for one in self.wire.sent()]
        assert left in ([], [data])
        return arrived + [UPLINK] * len(left)

    def _received(self):
        vports = [member.hca.nic_vport for member in self.members]
        return [vport.received.packets - vport.looped_in.packets for vport in vports]


@pytest.fixture
def legacy(clock):
    return Legacy(clock)


def test_unicast_goes_to_the_vport_of_its_address(legacy):
    for source in (PF, ONE, TWO, UPLINK):
        for number, address in MACS.items():
            if source != number:
                assert legacy.send(source, frame(address)) == [number]


def test_unknown_addresses(legacy):
    """They leave by the cable, and from the cable they are the physical function's."""
    for source in (PF, ONE, TWO):
        assert legacy.send(source, frame(STRANGER)) == [UPLINK]
        assert legacy.send(source, frame(GROUP)) == [UPLINK]
    assert legacy.send(UPLINK, frame(STRANGER)) == [PF]


def test_a_broadcast_reaches_all_but_its_source(legacy):
    """A broadcast of the cable does not return to it: two such switches would exchange it for
    ever."""
    everyone = [PF, ONE, TWO, UPLINK]
    for source in everyone:
        assert legacy.send(source, frame(BROADCAST)) == [one for one in everyone if one != source]


def test_a_trusted_function_wants_all_multicast(legacy):
    """`ip link set vf 0 trust on`, then allmulti in the virtual function."""
    legacy.flows.entry(
        legacy.fdb, ALL_MULTICAST, legacy.groups[ALL_MULTICAST], to_vport(ONE), to_vport(UPLINK),
        **mac(bytes.fromhex("010000000000")),
    )  # fmt: skip
    assert legacy.send(PF, frame(GROUP)) == [ONE, UPLINK]
    assert legacy.send(UPLINK, frame(GROUP)) == [ONE]
    assert legacy.send(UPLINK, frame(BROADCAST)) == [PF, ONE, TWO], "its entry is before"


def test_a_trusted_function_is_promiscuous(legacy):
    """It receives what the cable brings for nobody."""
    legacy.flows.entry(
        legacy.fdb, PROMISCUOUS, legacy.groups[PROMISCUOUS], to_vport(TWO),
        value=match_misc(source_port=UPLINK),
    )  # fmt: skip
    assert legacy.send(UPLINK, frame(STRANGER)) == [TWO]
    assert legacy.send(UPLINK, frame(MACS[ONE])) == [ONE]
    assert legacy.send(ONE, frame(STRANGER)) == [UPLINK]


def test_vepa(legacy):
    """`bridge link set hwmode vepa`: all that vPorts send leaves by the cable."""
    criteria = match_misc(source_port=0xFFFF)
    flows, vepa = legacy.flows, legacy.vepa
    uplink = flows.group(vepa, 0, 0, enable=MISC, match_criteria=criteria)
    value = match_misc(source_port=UPLINK)
    flows.entry(vepa, 0, uplink, to_table(legacy.fdb), value=value)
    flows.entry(vepa, 1, flows.group(vepa, 1, 1), to_vport(UPLINK))
    assert legacy.send(ONE, frame(MACS[TWO])) == [UPLINK]
    assert legacy.send(ONE, frame(BROADCAST)) == [UPLINK]
    assert legacy.send(UPLINK, frame(MACS[TWO])) == [TWO]
    for index in (0, 1):
        flows.delete(vepa, index)
    assert legacy.send(ONE, frame(MACS[TWO])) == [TWO]


def test_an_address_that_goes(legacy):
    legacy.flows.delete(legacy.fdb, TWO)
    assert legacy.send(ONE, frame(MACS[TWO])) == [UPLINK]


def receive_all(driver):
    """Steer whatever a function receives to one queue."""
    flows = Flows(driver)
    table = flows.table(0)
    tirn = create_direct_tir(driver, alloc_td(driver), create_rq(driver))
    flows.entry(table, 0, flows.group(table, 0, 0), to_tir(tirn))
    flows.set_root(table)


@pytest.mark.parametrize("source", [PF, ONE])
def test_a_function_reaches_itself(legacy, source):
    """Frames to the own address are looped back, as those of `ethtool -t` (en_selftest.c)."""
    member = legacy.members[source]
    driver, vport = member.driver, member.hca.nic_vport
    vport.permanent_address = MACS[source]
    receive_all(driver)
    for is_disabled in (0, 1):
        driver.must(
            Op.MODIFY_NIC_VPORT_CONTEXT, field_select={"disable_uc_local_lb": 1},
            nic_vport_context={"disable_uc_local_lb": is_disabled},
        )  # fmt: skip
        assert legacy.send(source, frame(MACS[source])) == []
        assert vport.looped_in.packets == 1


def test_a_broadcast_is_looped_back_as_well(legacy):
    """The function itself loops back what no tables decide about, the switch what its manager
    sends."""
    for source in (PF, ONE):
        member = legacy.members[source]
        receive_all(member.driver)
        legacy.send(source, frame(BROADCAST))
        assert member.hca.nic_vport.looped_in.packets == 1
