"""The embedded switch takes VLAN tags off packets, and puts others in front."""

from dataclasses import replace

import pytest
from helpers.device.switches import UPLINK, Switch

from emu.device.port.eth.frame import MAX_BYTES, Frame
from emu.device.port.eth.plain import plain
from emu.driver.ethernet.flow_fields import (
    entry_fields,
    set_field,
    to_table,
    to_vport,
)
from emu.driver.ethernet.flows import Flows
from emu.driver.ethernet.frames import EthPacket
from layouts.enums.cmd import Op, Status
from layouts.enums.flow_table import FlowTableType
from layouts.enums.fte import FlowAction
from layouts.enums.modify_header import ModifyField

POP, POP_2 = FlowAction.VLAN_POP, FlowAction.VLAN_POP_2
PUSH, PUSH_2 = FlowAction.VLAN_PUSH, FlowAction.VLAN_PUSH_2
PLAIN = EthPacket(payload=bytes(64)).frame()
TAG, OTHER = bytes.fromhex("8100 a007"), bytes.fromhex("88a8 0123")
BESIDE = {
    "push_vlan": {"ethtype": 0x8100, "prio": 5, "vid": 7},
    "push_vlan_2": {"ethtype": 0x88A8, "vid": 0x123},
}


def tagged(*tags, frame=PLAIN):
    return frame[:12] + b"".join(tags) + frame[12:]


@pytest.fixture
def switch(clock):
    return Switch(clock)


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        (PUSH, (), (TAG,)),
        (PUSH, (OTHER,), (TAG, OTHER)),
        (PUSH | PUSH_2, (), (OTHER, TAG)),
        (POP, (TAG, OTHER), (OTHER,)),
        (POP | POP_2, (TAG, OTHER), ()),
        (POP, (), ()),
        (POP | PUSH, (OTHER,), (TAG,)),
        (POP, (TAG, TAG, OTHER), (TAG, OTHER)),
    ],
)
def test_tags_go_and_come(switch, action, before, after):
    switch.entry(also=action, beside=BESIDE)
    assert switch.passes(tagged(*before)) == [tagged(*after)]


def test_headers_change_after_tags_have_gone_and_before_others_come(switch):
    context = switch.fdb.context(set_field(ModifyField.OUT_FIRST_VID, 9, 12))
    switch.entry(also=POP | PUSH, modify=context, beside=BESIDE)
    changed = bytes.fromhex("88a8 0009")
    assert switch.passes(tagged(TAG, OTHER)) == [tagged(TAG, changed)]


def test_a_later_table_matches_what_the_packet_is_then(switch):
    """Packets behind three tags, too: what has been decided for one says nothing of the other."""
    switch.entry(to_table(switch.second), also=POP | POP_2)
    fdb, table = switch.fdb, switch.second
    group = fdb.group(table, 0, 7, first_vid=0xFFF)
    fdb.entry(table, 1, group, to_vport(UPLINK), first_vid=7)
    switch.drop_rest(table)
    assert switch.passes(tagged(OTHER, OTHER, TAG)) == [tagged(TAG)]
    assert switch.passes(tagged(OTHER, OTHER, OTHER)) == []
    assert switch.passes(tagged(OTHER, OTHER)) == []


@pytest.mark.hostile
def test_a_packet_longer_than_its_frame_is_steered_by_its_headers(switch):
    """Before a tag comes as after it, so it is not like a packet without an IP header."""
    switch.entry(to_table(switch.second), also=PUSH, beside=BESIDE)
    fdb, table = switch.fdb, switch.second
    group = fdb.group(table, 0, 7, ip_version=0xF)
    fdb.entry(table, 1, group, to_vport(UPLINK), ip_version=4)
    switch.drop_rest(table)
    longer, without = PLAIN[:16] + b"\xff\xff" + PLAIN[18:], PLAIN[:14] + b"\0" + PLAIN[15:]
    for _ in range(2):
        assert len(switch.passes(longer)) == 1
        assert switch.passes(without) == []


def test_each_destination_gets_its_own(switch):
    """A mirror is before the change, as tc makes it."""
    switch.entry(to_table(switch.second), to_vport(UPLINK))
    switch.entry(table=switch.second, also=PUSH, beside=BESIDE)
    assert sorted(switch.passes(PLAIN)) == sorted([PLAIN, tagged(TAG)])


def test_short_and_long_frames(switch):
    switch.entry(also=POP)
    manager = switch.manager.hca
    (sent,) = switch.passes(PLAIN[:12] + TAG + PLAIN[12:56])
    assert sent == PLAIN[:56].ljust(60, b"\0")
    switch.fdb.delete(switch.first, 0)
    group = switch.fdb.group(switch.first, 1, 1)
    switch.fdb.entry(switch.first, 1, group, to_vport(UPLINK), also=PUSH, beside=BESIDE)
    manager.switch.forward(manager, Frame(PLAIN.ljust(MAX_BYTES, b"x"), source_port=0))
    assert switch.wire.sent() == []


@pytest.mark.parametrize("gso_size", [0, 1000])
def test_a_third_tag_before_the_sender_has_its_offloads(switch, gso_size):
    """Tables match two tags; checksums and segments are still those of the packet."""
    switch.entry(also=PUSH, beside=BESIDE)
    manager = switch.manager.hca
    packet = EthPacket(payload=bytes(range(250)) * 6, checked=False)
    twice, thrice = (
        Frame(tagged(*tags, frame=packet.frame()), gso_size, checked=True)
        for tags in ((OTHER, OTHER), (TAG, OTHER, OTHER))
    )
    manager.switch.forward(manager, replace(twice, source_port=0))
    (sent,) = switch.wire.sent()
    assert sent.data == thrice.data
    front = sent.data[:12] + TAG
    assert plain(sent) == [front + data[12:] for data in plain(twice)]


def test_a_changed_entry_pushes_another_tag(switch):
    switch.entry(also=PUSH, beside=BESIDE)
    group = switch.fdb.query_entry(switch.first, 0)[0].group_id
    other = {"push_vlan": BESIDE["push_vlan_2"]}
    switch.fdb.modify(switch.first, 0, group, to_vport(UPLINK), also=PUSH, beside=other)
    assert switch.passes(PLAIN) == [tagged(OTHER)]


@pytest.mark.hostile
def test_refused(switch):
    fdb, driver = switch.fdb, switch.driver
    group = fdb.group(switch.first, 0, 3)

    def status(kind=FlowTableType.FDB, table=switch.first, **options):
        fields = entry_fields(table, 0, group, to_vport(UPLINK), **options)
        return driver.command(Op.SET_FLOW_TABLE_ENTRY, table_type=kind, **fields).status

    assert status(also=PUSH, beside={"push_vlan": {"ethtype": 0x800}}) == Status.BAD_PARAM_ERR
    assert status(also=PUSH) == Status.BAD_PARAM_ERR, "no type at all"
    acl = Flows(driver, FlowTableType.ESW_EGRESS_ACL, 0)
    table = acl.table(0)
    group = acl.group(table, 0, 3)
    found = status(FlowTableType.ESW_EGRESS_ACL, table, also=PUSH, beside=BESIDE)
    assert found == Status.BAD_PARAM_ERR, "it pops only"
