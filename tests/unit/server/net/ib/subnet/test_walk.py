"""SMPs through a simulated subnet, hop by hop, whatever they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.device.rounds.costs import STEPS_PER_LINK_OF_SMP
from emu.driver.world.clock import HandClock
from emu.server.net.ib.subnet.fabric import SubnetFabric
from emu.server.net.ib.subnet.topology import parse
from layouts.wire.mads import (
    DIRECTION,
    MadStatus,
    Method,
    MgmtClass,
    SmpAttr,
    mcast_forw_table,
    node_info,
    port_info,
    smp,
    switch_info,
)

FILE = """
Switch 20 "leaf"
[1] "function0"[1]
[2] "other"[2]
[3] "spine"[1]
Switch 4 "spine"
[2] "far"[1]
Switch 4 "far"
[2] "loop"[1]
Switch 4 "loop"
[2] "loop"[3]
Hca 1 "function0"
Hca 2 "other"
"""
GUID = 0x11
PERMISSIVE = 0xFFFF


class Asker:
    """The function's place in the subnet, and what comes to it."""

    def __init__(self):
        self.clock = HandClock()
        self.subnet = SubnetFabric(self.clock, parse(FILE), [GUID])
        self.cables = self.subnet.cables
        plug = self.subnet.plugs[GUID]
        plug.arrive = lambda packet, origin: self.got.append((packet, origin))
        self.number, self.got = plug.number, []
        for number, port in ((self.number, 1), (0, 1)):
            self.cables.nodes[number].ports[port].connect(has_link=True)

    def send(self, data, dlid=PERMISSIVE, slid=PERMISSIVE):
        self.got.clear()
        self.subnet._walk.leave((self.number, 1), data, dlid, slid)
        return [smp.view(bytearray(b"".join(packet.data))) for packet, _ in self.got]

    def ask(self, *hops, attr=SmpAttr.NODE_INFO, method=Method.GET, attr_mod=0, data=b""):
        (answer,) = self.send(
            request(*hops, attr=attr, method=method, attr_mod=attr_mod, data=data)
        )
        assert (answer.tid, answer.method) == (7, 0x81)
        return answer


def request(*hops, attr=SmpAttr.NODE_INFO, method=Method.GET, attr_mod=0, data=b"", **fields):
    values = {
        "base_version": 1, "mgmt_class": MgmtClass.SUBN_DIRECTED_ROUTE, "class_version": 1,
        "method": method, "attr_id": attr, "attr_mod": attr_mod, "tid": 7, "hop_ptr": 1,
        "hop_cnt": len(hops), "dr_slid": PERMISSIVE, "dr_dlid": PERMISSIVE,
        "data": data.ljust(64, b"\0"), "initial_path": bytes((0, *hops)).ljust(64, b"\0"),
    }  # fmt: skip
    return bytes(smp.new(**values | fields))


@pytest.fixture
def asker():
    return Asker()


@pytest.mark.parametrize(
    ("hops", "name", "entry"),
    [((1,), "leaf", 1), ((1, 3), "spine", 1), ((1, 3, 2), "far", 1), ((1, 2), "other", 2),
     ((1, 3, 2, 2, 2), "loop", 3)],
)  # fmt: skip
def test_a_route_ends_at_a_node_that_names_its_entry(asker, hops, name, entry):
    answer = asker.ask(*hops)
    node = next(node for node in asker.cables.nodes if node.line.name == name)
    info = node_info.view(answer.data)
    assert (info.node_guid, info.local_port_num) == (node.line.guid, entry)
    assert info.port_guid == node.port_guid(entry)
    assert (answer.status, answer.hop_ptr) == (DIRECTION, 1)


@pytest.mark.parametrize("hops", [(1,), (1, 3), (1, 3, 2) + (2,) * 60])
def test_each_link_of_a_route_and_of_the_way_back_costs_the_round(asker, hops):
    before = asker.clock.budget.steps
    asker.ask(*hops)
    assert asker.clock.budget.steps - before == 2 * len(hops) * STEPS_PER_LINK_OF_SMP


def test_entry_and_port_of_port_info_are_two_numbers(asker):
    """LocalPortNum is where the SMP has come in, whatever port it asks about."""
    info = port_info.view(asker.ask(1, attr=SmpAttr.PORT_INFO, attr_mod=3).data)
    assert info.local_port_num == 1


def test_routes_that_lead_nowhere(asker):
    for hops in ((1, 9), (1, 0), (1, 255), (1, 2, 1), (1, 3, 4)):
        assert asker.send(request(*hops)) == []
    assert asker.send(request(1, hop_cnt=200)) == []
    assert asker.send(request(1, hop_ptr=3)) == []
    assert asker.send(request(1, dr_dlid=3)) == []
    assert asker.send(request(hop_ptr=0)) == []


def test_through_a_cut_cable_nothing_comes(asker):
    asker.cables.cut(1, 1, is_cut=True)
    assert asker.send(request(1, 3)) == []
    asker.cables.cut(1, 1, is_cut=False)
    asker.ask(1, 3)


def test_by_lid_as_the_tables_say(asker):
    leaf, spine = asker.cables.nodes[:2]
    own = asker.cables.nodes[asker.number].ports[1].info
    own.lid, leaf.ports[0].info.lid, spine.ports[0].info.lid = 1, 2, 3
    for node, exits in ((leaf, (255, 1, 0, 3)), (spine, (255, 1, 1, 0))):
        node.tables.linear[:] = bytes(exits)
        node.tables.info.linear_fdb_top = 3
    mad = smp.view(bytearray(request()))
    mad.mgmt_class = MgmtClass.SUBN_LID_ROUTED
    for lid, node in ((2, leaf), (3, spine)):
        (answer,) = asker.send(bytes(mad), lid, 1)
        assert node_info.view(answer.data).node_guid == node.line.guid
        assert asker.got[0][1].lid == lid
    leaf.tables.linear[3] = 1  # back, out of the function's port
    assert asker.send(bytes(mad), 3, 1) == []
    asker.cables.nodes[0].tables.linear[3] = 3
    spine.ports[0].info.lid, spine.tables.linear[3] = 9, 1  # in a circle
    assert asker.send(bytes(mad), 3, 1) == []
    # A directed route behind a LID: to the spine, and out of its port 2.
    spine.ports[0].info.lid = 3
    both = request(2, hop_ptr=0, dr_slid=1)
    (answer,) = asker.send(both, 3, 1)
    assert node_info.view(answer.data).node_guid == asker.cables.nodes[2].line.guid


def test_multicast_masks_of_more_than_16_ports(asker):
    """Position 1 has the ports from 16 on (IBTA 14.2.5.12)."""
    for position, mask in ((0, 0x8), (1, 0x3)):
        data = bytes(mcast_forw_table.new(port_mask=[0, mask] + [0] * 30))
        answer = asker.ask(
            1, attr=SmpAttr.MCAST_FORW_TABLE, method=Method.SET, attr_mod=position << 28, data=data
        )
        assert answer.data == data
    assert asker.cables.nodes[0].tables.multicast == {1: 0x30008}
    status = asker.ask(1, attr=SmpAttr.MCAST_FORW_TABLE, attr_mod=2 << 28).status
    assert status == DIRECTION | MadStatus.INVALID_ATTRIB_VALUE


def test_the_change_of_a_link_stays_until_the_manager_takes_it_away(asker):
    asker.cables.cut(0, 3, is_cut=True)
    assert switch_info.view(asker.ask(1, attr=SmpAttr.SWITCH_INFO).data).port_state_change
    given = switch_info.new(port_state_change=1, linear_fdb_top=5)
    asker.ask(1, attr=SmpAttr.SWITCH_INFO, method=Method.SET, data=bytes(given))
    info = switch_info.view(asker.ask(1, attr=SmpAttr.SWITCH_INFO).data)
    assert (info.port_state_change, info.linear_fdb_top) == (0, 5)


def state(cables):
    return [
        (
            [bytes(port.info) for port in node.ports],
            [(port.pkeys, dict(port.sl_to_vl), dict(port.arbitration)) for port in node.ports],
            node.tables and (bytes(node.tables.info), bytes(node.tables.linear)),
            node.tables and dict(node.tables.multicast),
        )
        for node in cables.nodes
    ]


_ATTRS = [*SmpAttr, 0x77]


@pytest.mark.hostile
@given(
    st.lists(st.integers(0, 4), max_size=6),
    st.sampled_from(_ATTRS),
    st.sampled_from([Method.GET, Method.SET, Method.SEND, Method.TRAP, Method.TRAP_REPRESS, 0x81]),
    st.one_of(st.integers(0, 30), st.integers(0, (1 << 32) - 1)),
    st.binary(max_size=64),
    st.fixed_dictionaries(
        {},
        optional={
            "hop_ptr": st.integers(0, 255), "hop_cnt": st.integers(0, 255),
            "status": st.sampled_from([0, DIRECTION]), "base_version": st.integers(0, 2),
            "dr_slid": st.sampled_from([0, 1, PERMISSIVE]), "return_path": st.binary(
                min_size=64, max_size=64
            ),
        },
    ),
    st.sampled_from([0, 1, 3, 0xC000, PERMISSIVE]),
)  # fmt: skip
def test_any_smp_is_answered_refused_or_dropped(hops, attr, method, mod, data, fields, dlid):
    asker = Asker()
    before = state(asker.cables)
    sent = request(*hops, attr=attr, method=method, attr_mod=mod, data=data, **fields)
    answers = asker.send(sent, dlid, 1)
    refused = not answers or answers[0].status & ~DIRECTION
    if refused or method != Method.SET:
        changed = [
            number for number, (one, other) in enumerate(zip(before, state(asker.cables)))
            if one[2:] != other[2:] or one[1] != other[1]
        ]  # fmt: skip
        assert not changed or (method == Method.SET and not answers)
    asker.ask(1)
