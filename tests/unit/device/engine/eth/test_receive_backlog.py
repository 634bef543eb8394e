"""Frames that wait for a later round because this one has done enough."""

import pytest

from emu.device.engine.eth.receive import arrive, loop_back
from emu.device.engine.eth.transmit import send
from emu.device.port.eth.frame import Frame
from emu.device.rounds.backlog import MAX_WAITING
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td
from layouts.enums.flow_table import FlowTableType

GROUP = bytes.fromhex("01005e000001")


@pytest.mark.hostile
@pytest.mark.parametrize("is_looped", [False, True], ids=["from the wire", "looped"])
def test_what_a_full_line_has_no_room_for_is_counted(hca, driver, is_looped):
    domain = hca.tds.need(alloc_td(driver))
    hca.budget.steps = hca.budget.limit + 1
    frame = Frame(GROUP + EthPacket().frame()[6:])
    for _ in range(MAX_WAITING + 3):
        if is_looped:
            loop_back(hca, frame, domain)
        else:
            arrive(hca, frame)
    assert hca.nic_vport.received.discards == 3
    assert len(hca.backlogs.rx) == MAX_WAITING
    large = Frame(GROUP + EthPacket(payload=bytes(250)).frame()[6:], gso_size=100, checked=True)
    if is_looped:
        loop_back(hca, large, domain)
    else:
        arrive(hca, large)
    assert hca.nic_vport.received.discards == 3 + 3, "it stands for three packets"


@pytest.mark.hostile
def test_sent_frames_that_a_full_line_has_no_room_for(hca, driver, sq):
    flows = Flows(driver, FlowTableType.NIC_TX)
    flows.set_root(flows.table(0))
    hca.budget.steps = hca.budget.limit + 1
    for _ in range(MAX_WAITING + 3):
        send(hca, hca.sqs.need(sq.sqn), Frame(EthPacket().frame()), 2, 60, 120)
    assert hca.nic_vport.sent.discards == 2 * 3


def test_packets_that_come_while_the_vport_is_down(hca):
    hca.nic_vport.admin_up = False
    for payload, gso_size in ((10, 0), (250, 100), (0, 100)):
        arrive(hca, Frame(EthPacket(payload=bytes(payload)).frame(), gso_size, gso_size > 0))
    assert hca.nic_vport.received_while_down == 1 + 3 + 1


@pytest.mark.parametrize("mtu", [50, 1500], ids=["beyond the MTU", ""])
def test_a_super_frame_without_payload(hca, mtu):
    hca.eth.admin_mtu = mtu
    arrive(hca, Frame(EthPacket(payload=b"").frame(), gso_size=1000, checked=True))
    assert hca.nic_vport.received.errors == 1
    assert hca.nic_vport.received.packets == 0
