"""Frames that two switches return to each other for ever, by the cable between them."""

import pytest
from helpers.device.adapters import Member, made_with_switch

from emu.device.port.eth.frame import Frame
from emu.device.rounds.budget import POLL_BUDGET
from emu.device.rounds.costs import STEPS_PER_FRAME
from emu.driver.ethernet.flow_fields import to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.world.cable import set_link
from emu.server.net.eth.segments import Segments
from layouts.enums.cmd import Op
from layouts.enums.flow_table import FlowTableType

UPLINK = 0xFFFF
FRAME = EthPacket(payload=b"to and fro").frame()
HAIRPIN = {"beside": {"uplink_hairpin_en": 1}}


@pytest.fixture
def managers(clock):
    """Both ends of a cable, whose tables return every frame to it."""
    segments = Segments(clock)
    members = [
        Member(made_with_switch(segments.plug(name, 0)).manager, clock) for name in ("one", "two")
    ]
    for member in members:
        fdb = Flows(member.driver, FlowTableType.FDB)
        table = fdb.table(0)
        fdb.entry(table, 0, fdb.group(table, 0, 15), to_vport(UPLINK), **HAIRPIN)
        fdb.set_root(table)
    return members


@pytest.mark.hostile
def test_a_frame_that_never_ends(managers):
    """The switches go on in each round, within its budget."""
    first, _ = managers
    first.hca.switch.receive(Frame(FRAME))
    before = 0
    for _ in range(6):
        for member in managers:
            member.function.run()
        received = first.hca.switch.port_traffic()[1].unicast.packets
        assert received <= before + 2 * POLL_BUDGET // STEPS_PER_FRAME
        before = received
    assert before > POLL_BUDGET // STEPS_PER_FRAME
    assert not any(member.hca.health.has_failed for member in managers)
    set_link(first.hca, up=False)
    for member in managers:
        member.driver.must(Op.ALLOC_PD)
