"""Frames that rules change keep what the adapter knows of them beside their bytes."""

import pytest
from helpers.device.shared_fdb import MANAGER, MISC, UPLINK, VPORT, SharedBoard, queue, send
from helpers.device.switches import Switch

from emu.device.faults.injector import Injector
from emu.device.faults.parser import load
from emu.device.port.eth.frame import Frame
from emu.device.port.eth.segment import unsegmented
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import match_misc, to_tir, to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir
from emu.driver.ethernet.receive_queue import ReceiveQueue
from layouts.enums.cmd import Status
from layouts.enums.modify_header import ModifyField
from layouts.enums.wqe import EthChecksum, Opcode

MISC_2 = 1 << 3
CHANGES = ['"corrupt"\nat=60', '"replace"\ndata="02"']
MSS, PACKETS = 100, 3
LARGE = EthPacket(payload=bytes(250))


def change(member, point, action):
    """Change each frame at a point by an action."""
    member.function.use_faults(injector := Injector(member.function))
    injector.load(load(f'[[rule]]\npoint="{point}"\naction={action}\n'))


@pytest.mark.parametrize("action", CHANGES)
def test_entries_for_their_queue(clock, action):
    """A representor's frames are told from others by their queue; parts of large sends as well."""
    switch = Switch(clock)
    queues = match_misc(source_sqn=0xFFFFFF)
    group = switch.fdb.group(switch.first, 0, 0, enable=MISC, match_criteria=queues)
    value = match_misc(source_sqn=switch.sq.sqn)
    switch.fdb.entry(switch.first, 0, group, to_vport(UPLINK), value=value)
    switch.drop_rest()
    change(switch.manager, "frame.tx", action)
    assert len(switch.passes(LARGE.frame())) == 1
    switch.sq.send(LARGE.payload, opcode=Opcode.LSO, mss=MSS, headers=LARGE.header(),
                   cs_flags=EthChecksum.L3 | EthChecksum.L4)  # fmt: skip
    switch.manager.node.settle()
    assert [frame.gso_size for frame in switch.wire.sent()] == [0] * PACKETS


@pytest.mark.parametrize("action", CHANGES)
def test_affinity_of_their_queue(clock, action):
    """The map of a bond with native selection chooses the port by it."""
    board = SharedBoard(clock)
    table = board.by_source((0, MANAGER, to_vport(UPLINK, vhca=0)))
    board.bond()
    assert board.share(table).status == Status.OK
    manager = board.first.manager
    change(manager, "frame.tx", action)
    send(manager, queue(manager, lag_tx_port_affinity=2))
    assert [port.sent() for port in board.ports] == [0, 1]


@pytest.mark.parametrize("gso_size", [0, MSS])
@pytest.mark.parametrize("action", [*CHANGES, '"damage"\nat=60'])
def test_entries_for_their_vport(clock, action, gso_size):
    """The manager's tables match the source vPort and registers, as the FDB leaves them."""
    manager = Switch(clock).manager
    manager.hca.eth.checks_fcs = False
    rq, flows = ReceiveQueue(manager.node), Flows(manager.driver)
    buffers = Buffers(rq)
    tir = create_direct_tir(manager.driver, alloc_td(manager.driver), rq.rqn)
    table = flows.table(1)
    criteria = match_misc({0: 0xFFFFFFFF}, source_port=0xFFFF)
    group = flows.group(table, 0, 0, enable=MISC | MISC_2, match_criteria=criteria)
    value = match_misc({0: 0x1234}, source_port=VPORT)
    flows.entry(table, 0, group, to_tir(tir), value=value)
    flows.set_root(table)
    change(manager, "frame.rx", action)
    data = unsegmented(LARGE.header(), LARGE.payload, MSS) if gso_size else LARGE.frame()
    marked = {"source_port": VPORT, "registers": {ModifyField.METADATA_REG_C_0: 0x1234}}
    manager.hca.switch.give(MANAGER, Frame(data, gso_size, bool(gso_size), **marked))
    assert len(buffers.drain()) == (PACKETS if gso_size else 1)
