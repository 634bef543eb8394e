"""A virtual function's VLAN and checked address, by ACLs as the driver writes them in legacy mode.

Source: core/esw/acl/ingress_lgcy.c, egress_lgcy.c. `ip link set eth0 vf 0 vlan 7 qos 5 spoofchk on`
asks for them.
"""

import pytest
from helpers.device.adapters import Member, made_with_switch

from emu.device.port.eth.frame import Frame
from emu.driver.ethernet.buffers import Buffers
from emu.driver.ethernet.flow_fields import entry_fields, match_misc, to_tir, to_vport
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from emu.driver.ethernet.interfaces import alloc_td, create_direct_tir, create_tis
from emu.driver.ethernet.receive_queue import ReceiveQueue
from emu.driver.ethernet.send_queue import SendQueue
from emu.driver.world.tap_wire import TapWire
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction

VF, UPLINK = 5, 0xFFFF
MISC = 1 << 1
INGRESS, EGRESS = FlowTableType.ESW_INGRESS_ACL, FlowTableType.ESW_EGRESS_ACL
PUSHED = {"push_vlan": {"ethtype": 0x8100, "prio": 5, "vid": 7}}
PLAIN = EthPacket(payload=bytes(64)).frame()
TAG, OTHER_TAG = bytes.fromhex("8100 a007"), bytes.fromhex("8100 0008")
FORGED = PLAIN[:6] + bytes.fromhex("020000000099") + PLAIN[12:]


def tagged(tag, frame=PLAIN):
    return frame[:12] + tag + frame[12:]


class Hypervisor:
    """The manager, whose FDB joins a virtual function and the cable, and the function's sender."""

    def __init__(self, clock):
        self.wire = TapWire()
        adapter = made_with_switch(self.wire)
        self.manager, self.vf = (
            Member(place, clock) for place in (adapter.manager, adapter.add(VF))
        )
        td = alloc_td(self.vf.driver)
        self.sq = SendQueue(self.vf.node, tisn=create_tis(self.vf.driver, td))
        fdb = Flows(self.manager.driver, FlowTableType.FDB)
        table = fdb.table(0)
        criteria = match_misc(source_port=0xFFFF)
        group = fdb.group(table, 0, 1, enable=MISC, match_criteria=criteria)
        for index, (source, to) in enumerate([(VF, UPLINK), (UPLINK, VF)]):
            value = match_misc(source_port=source)
            fdb.entry(table, index, group, to_vport(to), value=value)
        fdb.set_root(table)
        rq = ReceiveQueue(self.vf.node)
        self.buffers = Buffers(rq)
        nic = Flows(self.vf.driver)
        root = nic.table(1)
        to = to_tir(create_direct_tir(self.vf.driver, td, rq.rqn))
        nic.entry(root, 0, nic.group(root, 0, 0), to)
        nic.set_root(root)

    def acl(self, kind, masks, **allowed):
        """An entry that lets pass what it matches, and one that drops the rest; how many it has."""
        acl = Flows(self.manager.driver, kind, VF)
        table, counter = acl.table(0, log_size=1), acl.counter()
        acl.entry(table, 0, acl.group(table, 0, 0, **masks), **allowed)
        dropped = acl.group(table, 1, 1)
        acl.entry(table, 1, dropped, action=FlowAction.DROP, counters=[counter])
        acl.set_root(table)
        return lambda: acl.query_counter(counter)[0]

    def sends(self, frame):
        """What leaves by the cable when the virtual function has sent a frame."""
        self.sq.send(frame)
        self.vf.node.settle()
        return [frame.data for frame in self.wire.sent()]

    def gets(self, frame):
        """What comes to the virtual function of a frame that comes by the cable."""
        self.manager.hca.switch.receive(Frame(frame))
        return [data for _, data in self.buffers.drain()]


@pytest.fixture
def hypervisor(clock):
    return Hypervisor(clock)


def mac(address):
    number = int.from_bytes(address, "big")
    return {"smac_47_16": number >> 16, "smac_15_0": number & 0xFFFF}


def test_spoof_check(hypervisor):
    """Only its own address is a source; without a VLAN its own tags pass (VGT)."""
    own = mac(PLAIN[6:12])
    drops = hypervisor.acl(INGRESS, mac(b"\xff" * 6), action=FlowAction.ALLOW, **own)
    assert (hypervisor.sends(PLAIN), drops()) == ([PLAIN], 0)
    assert (hypervisor.sends(tagged(TAG)), drops()) == ([tagged(TAG)], 0)
    assert (hypervisor.sends(FORGED), drops()) == ([], 1)


def test_its_vlan_comes_and_goes(hypervisor):
    """VST: the tag is the switch's alone; what is of another VLAN, or of none, it does not get."""
    hypervisor.acl(INGRESS, {}, action=FlowAction.ALLOW | FlowAction.VLAN_PUSH, beside=PUSHED)
    drops = hypervisor.acl(
        EGRESS, {"cvlan_tag": 1, "first_vid": 0xFFF},
        action=FlowAction.ALLOW | FlowAction.VLAN_POP, cvlan_tag=1, first_vid=7,
    )  # fmt: skip
    assert hypervisor.sends(PLAIN) == [tagged(TAG)]
    assert (hypervisor.gets(tagged(TAG)), drops()) == ([PLAIN], 0)
    assert (hypervisor.gets(tagged(OTHER_TAG)), hypervisor.gets(PLAIN)) == ([], [])
    assert drops() == 2


def test_its_vlan_and_a_checked_address(hypervisor):
    drops = hypervisor.acl(
        INGRESS, mac(b"\xff" * 6), action=FlowAction.ALLOW | FlowAction.VLAN_PUSH, beside=PUSHED,
        **mac(PLAIN[6:12]),
    )  # fmt: skip
    assert (hypervisor.sends(PLAIN), hypervisor.sends(FORGED)) == ([tagged(TAG)], [])
    assert drops() == 1


def test_no_tag_of_its_own_where_the_switch_cannot_push(hypervisor):
    """Up to ConnectX-4: the table lets pass what has no tag (vst_check_cvlan)."""
    drops = hypervisor.acl(INGRESS, {"cvlan_tag": 1}, action=FlowAction.ALLOW)
    assert (hypervisor.sends(PLAIN), hypervisor.sends(tagged(TAG))) == ([PLAIN], [])
    assert drops() == 1


@pytest.mark.parametrize(
    ("kind", "action"), [(INGRESS, FlowAction.VLAN_POP), (EGRESS, FlowAction.VLAN_PUSH)]
)
def test_what_either_side_cannot_do(hypervisor, kind, action):
    acl = Flows(hypervisor.manager.driver, kind, VF)
    table = acl.table(0, log_size=0)
    fields = entry_fields(table, 0, acl.group(table, 0, 0), action=FlowAction.ALLOW | action)
    answer = hypervisor.manager.driver.command(
        Op.SET_FLOW_TABLE_ENTRY, vport_number=VF, other_vport=1, table_type=kind, **fields
    )
    assert answer.status == Status.BAD_PARAM_ERR
