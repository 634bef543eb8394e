"""The switch that joins a subnet's ports: what it tells by SMPs, and where it takes them."""

import pytest
from helpers.net.subnet import end_port
from hypothesis import given
from hypothesis import strategies as st

from emu.device.port.datagram import Destination, Origin
from emu.device.port.ib.port import SM_LID
from emu.device.port.ib.sma import EXTENDED_SPEEDS
from emu.server.net.ib.sm.switch import MAX_PORTS, MIN_PORTS, SmpSwitch
from layouts.enums.vport import PhysState, PortState
from layouts.wire.mads import (
    DIRECTION,
    MAD_BYTES,
    MadStatus,
    Method,
    MgmtClass,
    NodeType,
    SmpAttr,
    SmState,
    linear_forw_table,
    node_info,
    port_info,
    sm_info,
    smp,
    switch_info,
)

PERMISSIVE = 0xFFFF
SM_GUID = 0x99
TID = 0x1234


class Fabric:
    """The switch, and the SMPs that leave it, by LID."""

    def __init__(self, count=3):
        own = end_port(SM_LID, node_type=NodeType.SWITCH, port_num=0)
        self.switch = SmpSwitch(own, self._carry)
        self.ports = [end_port(lid) for lid in range(1, count + 1)]
        self.switch.connect(self.ports)
        self.sent = []

    def _carry(self, packet, origin):
        assert (origin.lid, origin.qpn, packet.to.qpn) == (SM_LID, 0, 0)
        assert packet.length == MAD_BYTES
        self.sent.append((packet.to.lid, smp.view(bytearray(b"".join(packet.data)))))

    def send(self, lid, mad, qpn=0):
        to = Destination(0, 0, SM_LID, sl=0, path_bits=0)
        self.switch.receive(bytes(mad), to, Origin(lid, qpn, 0xFFFF, 0, bytes(16)))
        sent, self.sent = self.sent, []
        return sent

    def get(self, lid, attr, attr_mod=0, **fields):
        """What the switch answers to a SMP that ends at it."""
        ((back, mad),) = self.send(lid, request(attr, attr_mod, **fields))
        assert (back, mad.tid, mad.method) == (lid, TID, 0x81)
        return mad


@pytest.fixture
def fabric():
    return Fabric()


def request(attr, attr_mod=0, *hops, **fields):
    """An SMP as it comes to the switch; directed when it has a route."""
    fields = {
        "base_version": 1, "class_version": 1, "method": Method.GET, "tid": TID, "attr_id": attr,
        "attr_mod": attr_mod, "mgmt_class": MgmtClass.SUBN_LID_ROUTED,
    } | fields  # fmt: skip
    if hops:
        fields |= {
            "mgmt_class": MgmtClass.SUBN_DIRECTED_ROUTE, "hop_cnt": len(hops), "hop_ptr": 1,
            "dr_slid": PERMISSIVE, "dr_dlid": PERMISSIVE,
            "initial_path": bytes((0, *hops)).ljust(64, b"\0"),
        }  # fmt: skip
    return smp.new(**fields)


def test_it_is_a_switch(fabric):
    info = node_info.view(fabric.get(2, SmpAttr.NODE_INFO).data)
    assert (info.node_type, info.num_ports) == (NodeType.SWITCH, MIN_PORTS)
    assert info.local_port_num == 2
    assert switch_info.view(fabric.get(1, SmpAttr.SWITCH_INFO).data).linear_fdb_top == SM_LID


def test_the_manager_is_the_master_with_the_highest_priority(fabric):
    counts = []
    for _ in range(2):
        info = sm_info.view(fabric.get(1, SmpAttr.SM_INFO).data)
        assert (info.guid, info.priority, info.sm_key) == (fabric.switch.port.port_guid, 15, 1)
        assert info.sm_state == SmState.MASTER
        counts.append(info.act_count)
    assert counts[1] > counts[0]


def test_ports_have_the_links_behind_them(fabric):
    fabric.ports[1] = end_port(2, speed=64, width=2, mtu=2048)
    fabric.switch.connect(fabric.ports)
    info = port_info.view(fabric.get(1, SmpAttr.PORT_INFO, 2).data)
    assert (info.port_state, info.port_physical_state) == (PortState.ACTIVE, PhysState.LINK_UP)
    assert (info.neighbor_mtu, info.link_speed_ext_active, info.link_width_active) == (4, 4, 16)
    assert (info.lid, info.local_port_num) == (0, 1)


def test_port_without_a_link(fabric):
    info = port_info.view(fabric.get(1, SmpAttr.PORT_INFO, MIN_PORTS).data)
    assert (info.port_state, info.port_physical_state) == (PortState.DOWN, PhysState.POLLING)


def test_port_zero_is_the_managers(fabric):
    info = port_info.view(fabric.get(3, SmpAttr.PORT_INFO).data)
    assert (info.lid, info.port_state, info.local_port_num) == (SM_LID, PortState.ACTIVE, 3)


def test_a_manager_that_supports_extended_speeds_gets_the_same_port_info(fabric):
    """Smpquery -x sets bit 31 of the modifier."""
    for number in (0, 2):
        answer = fabric.get(1, SmpAttr.PORT_INFO, EXTENDED_SPEEDS | number)
        assert answer.status == MadStatus.SUCCESS
        assert answer.data == fabric.get(1, SmpAttr.PORT_INFO, number).data
    wrong = fabric.get(1, SmpAttr.PORT_INFO, EXTENDED_SPEEDS | MIN_PORTS + 1)
    assert wrong.status == MadStatus.INVALID_ATTRIB_VALUE


def test_forwarding_table(fabric):
    first = linear_forw_table.view(fabric.get(1, SmpAttr.LINEAR_FORW_TABLE).data).port
    assert list(first) == [255, 1, 2, 3] + [255] * 60
    last = fabric.get(1, SmpAttr.LINEAR_FORW_TABLE, SM_LID // 64).data
    assert last[SM_LID % 64] == 0


@pytest.mark.parametrize(
    ("attr", "attr_mod"),
    [
        *((SmpAttr.PORT_INFO, MIN_PORTS + 1), (SmpAttr.LINEAR_FORW_TABLE, 768)),
        *((SmpAttr.PKEY_TABLE, (MIN_PORTS + 1) << 16), (SmpAttr.GUID_INFO, 1)),
    ],
)
def test_modifier_that_names_nothing(fabric, attr, attr_mod):
    assert fabric.get(1, attr, attr_mod).status == MadStatus.INVALID_ATTRIB_VALUE


def test_nothing_can_be_set(fabric):
    for attr in (SmpAttr.SM_INFO, SmpAttr.SWITCH_INFO, SmpAttr.LINEAR_FORW_TABLE):
        answer = fabric.get(1, attr, method=Method.SET)
        assert answer.status == MadStatus.UNSUPPORTED_METHOD_ATTRIB


def test_traps_are_repressed(fabric):
    """opensm tells the master when it has set IsSM, and wants to hear that it has arrived."""
    trap = request(SmpAttr.NOTICE, method=Method.TRAP, data=bytes(range(64)))
    ((lid, mad),) = fabric.send(2, trap)
    assert (lid, mad.method, mad.tid, mad.attr_id) == (2, Method.TRAP_REPRESS, TID, SmpAttr.NOTICE)
    assert mad.data == bytes(range(64))
    assert fabric.send(2, request(SmpAttr.NOTICE, method=Method.TRAP_REPRESS)) == []
    assert fabric.send(2, request(SmpAttr.NODE_INFO, method=Method.TRAP)) == []


def test_one_hop_ends_at_the_switch(fabric):
    """The responder notes the way back and marks the answer (C14-9:3, C14-13:1)."""
    ((lid, mad),) = fabric.send(2, request(SmpAttr.NODE_INFO, 0, 1))
    assert (lid, mad.status, mad.hop_ptr) == (2, DIRECTION, 1)
    assert mad.return_path[1] == 2


def test_two_hops_end_at_a_port_and_come_back(fabric):
    ((lid, mad),) = fabric.send(2, request(SmpAttr.NODE_INFO, 0, 1, 3))
    assert (lid, mad.hop_ptr, mad.return_path[1]) == (3, 2, 2)
    mad.status = DIRECTION
    ((lid, mad),) = fabric.send(3, mad)
    assert (lid, mad.hop_ptr) == (2, 1)


def test_a_route_that_begins_at_the_switch(fabric):
    """As ibportstate asks for the other end of a link: by LID first, then by the route."""
    asked = request(SmpAttr.NODE_INFO, 0, 3)
    asked.assign({"hop_ptr": 0, "dr_slid": 2})
    ((lid, mad),) = fabric.send(2, asked)
    assert (lid, mad.hop_ptr) == (3, 1)
    mad.status = DIRECTION
    ((lid, mad),) = fabric.send(3, mad)
    assert (lid, mad.hop_ptr) == (2, 0)
    mad.assign({"hop_ptr": 1, "dr_slid": 9})
    assert fabric.send(3, mad) == []


@pytest.mark.parametrize(
    "change",
    [
        {"hop_ptr": 0}, {"hop_ptr": 3}, {"hop_cnt": 0}, {"hop_cnt": 3}, {"hop_cnt": 255},
        {"hop_cnt": 64, "hop_ptr": 64}, {"dr_dlid": 3}, {"dr_dlid": 3, "hop_ptr": 2},
        {"initial_path": bytes(64)}, {"initial_path": bytes((0, 1, 200)).ljust(64, b"\0")},
        {"status": DIRECTION}, {"mgmt_class": MgmtClass.SUBN_ADM},
        {"status": DIRECTION, "hop_ptr": 2}, {"status": DIRECTION, "hop_ptr": 2, "dr_slid": 1},
    ],
    ids=str,
)  # fmt: skip
def test_routes_that_lead_nowhere(fabric, change):
    mad = request(SmpAttr.NODE_INFO, 0, 1, 3)
    mad.assign(change)
    assert fabric.send(2, mad) == []


def test_only_qp0_of_a_port_of_the_switch_is_heard(fabric):
    mad = request(SmpAttr.NODE_INFO)
    assert fabric.send(1, mad, qpn=5) == []
    assert fabric.send(9, mad) == []
    assert fabric.send(1, bytes(mad)[:255]) == []


def test_a_port_keeps_its_number_while_it_is_down(fabric):
    fabric.switch.connect(fabric.ports[2:])
    assert fabric.switch.ports.number_of(3) == 3
    assert fabric.switch.ports.number_of(1) is None
    fabric.switch.connect([*fabric.ports, end_port(4)])
    assert [fabric.switch.ports.number_of(lid) for lid in (1, 2, 3, 4)] == [1, 2, 3, 4]


def test_more_ports_than_a_switch_has():
    """It grows to what NodeInfo can say; numbers of ports that have gone are given again."""
    fabric = Fabric(MAX_PORTS + 5)
    info = node_info.view(fabric.get(1, SmpAttr.NODE_INFO).data)
    assert info.num_ports == MAX_PORTS
    assert fabric.switch.ports.number_of(MAX_PORTS + 1) is None
    fabric.switch.connect(fabric.ports[1:])
    assert fabric.switch.ports.number_of(MAX_PORTS + 1) == 1


@pytest.mark.hostile
@given(st.binary(min_size=MAD_BYTES, max_size=MAD_BYTES), st.sampled_from(list(MgmtClass)))
def test_random_smps_get_one_answer_at_most(data, mgmt_class):
    mad = bytearray(data)
    mad[1] = mgmt_class
    assert len(Fabric().send(1, mad)) <= 1
