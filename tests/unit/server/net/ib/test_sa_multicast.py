"""Multicast groups: how they come into being, who may join, how they end (IBTA 15.2.5.17)."""

import pytest
from helpers.net.subnet import Subnet, end_port

from emu.device.rounds.budget import POLL_BUDGET
from emu.server.net.ib.sa import multicast
from layouts.wire.mads import MadStatus, Method
from layouts.wire.sa import JoinState, SaAttr, SaStatus, Selector

GET, SET, GET_TABLE, DELETE = Method.GET, Method.SET, Method.GET_TABLE, Method.DELETE
BROADCAST = bytes.fromhex("ff12401bffff00000000 0000ffffffff")
ALL_HOSTS = bytes.fromhex("ff12401bffff00000000 000000000001")
FULL, NON = JoinState.FULL_MEMBER, JoinState.NON_MEMBER
SENDONLY, SENDONLY_FULL = JoinState.SENDONLY_NON_MEMBER, JoinState.SENDONLY_FULL_MEMBER

# What IPoIB names in every join but that of the broadcast group (ipoib_multicast.c).
CREATE = {
    "qkey": 0x0B1B, "mtu_selector": Selector.EQ, "mtu": 5, "traffic_class": 0, "pkey": 0xFFFF,
    "rate_selector": Selector.EQ, "rate": 3, "sl": 0, "flow_label": 0, "hop_limit": 0,
}  # fmt: skip

ALL_NOTICES = {
    "lid_range_begin": 0xFFFF, "lid_range_end": 0xFFFF, "is_generic": 1, "trap_type": 0xFFFF,
    "trap_num": 0xFFFF, "producer_type": 0xFFFFFF, "resp_time": 19,
}  # fmt: skip


@pytest.fixture
def subnet():
    return Subnet()


def join(subnet, lid, mgid=ALL_HOSTS, state=FULL, *, port=None, but=(), **fields):
    fields = {"mgid": mgid, "port_gid": subnet.gid(port or lid), "join_state": state} | fields
    mask = [name for name in fields if name not in but]
    return subnet.ask(lid, SET, SaAttr.MC_MEMBER_REC, mask, **fields)


def leave(subnet, lid, mgid=ALL_HOSTS, state=FULL, port=None):
    fields = {"mgid": mgid, "port_gid": subnet.gid(port or lid), "join_state": state}
    return subnet.ask(lid, DELETE, SaAttr.MC_MEMBER_REC, **fields)


def groups(subnet):
    return [r.mgid for r in subnet.ask(1, GET_TABLE, SaAttr.MC_MEMBER_REC).records]


def members(subnet, mgid=ALL_HOSTS):
    table = subnet.ask(1, GET_TABLE, SaAttr.MC_MEMBER_REC, mgid=mgid, sm_key=1)
    return {r.port_gid: r.join_state for r in table.records if any(r.port_gid)}


def test_broadcast_group_is_there_before_anybody_joins(subnet):
    assert groups(subnet) == [BROADCAST]
    record = join(subnet, 1, BROADCAST, pkey=0xFFFF).record
    assert (record.mlid, record.qkey, record.mtu, record.rate) == (0xC000, 0x0B1B, 5, 3)
    assert (record.mtu_selector, record.rate_selector) == (Selector.EQ, Selector.EQ)
    assert (record.scope, record.join_state, record.pkey) == (2, FULL, 0xFFFF)
    assert leave(subnet, 1, BROADCAST).status == MadStatus.SUCCESS
    assert groups(subnet) == [BROADCAST]


def test_every_partition_has_a_broadcast_group():
    subnet = Subnet(1, pkeys=(0xFFFF, 0x0001))
    assert groups(subnet) == [BROADCAST, bytes.fromhex("ff12401b8001000000000000ffffffff")]


def test_first_full_member_creates_the_group(subnet):
    record = join(subnet, 1, **CREATE).record
    assert (record.mlid, record.mgid, record.port_gid) == (0xC001, ALL_HOSTS, subnet.gid(1))
    assert {name: getattr(record, name) for name in CREATE} == CREATE
    assert join(subnet, 2).record.mlid == 0xC001
    assert members(subnet) == {subnet.gid(1): FULL, subnet.gid(2): FULL}


@pytest.mark.parametrize("missing", ["qkey", "pkey", "traffic_class", "flow_label", "sl"])
def test_a_group_is_not_created_from_half_of_what_it_needs(subnet, missing):
    answer = join(subnet, 1, but=[missing], **CREATE)
    assert answer.status == SaStatus.REQ_INSUFFICIENT_COMPONENTS
    assert groups(subnet) == [BROADCAST]


@pytest.mark.parametrize("missing", ["port_gid", "join_state"])
def test_a_join_names_port_and_state(subnet, missing):
    answer = join(subnet, 1, BROADCAST, but=[missing])
    assert answer.status == SaStatus.REQ_INSUFFICIENT_COMPONENTS


@pytest.mark.parametrize("state", [NON, SENDONLY, NON | SENDONLY])
def test_only_a_full_member_creates(subnet, state):
    assert join(subnet, 1, state=state, **CREATE).status == SaStatus.REQ_INVALID
    assert groups(subnet) == [BROADCAST]


def test_a_sender_can_create_too(subnet):
    """IPoIB joins a group that it only sends to as send-only full member."""
    assert join(subnet, 1, state=SENDONLY_FULL, **CREATE).record.join_state == SENDONLY_FULL
    assert leave(subnet, 1, state=SENDONLY_FULL).status == MadStatus.SUCCESS
    assert groups(subnet) == [BROADCAST]


def test_states_add_up_and_go_one_by_one(subnet):
    join(subnet, 1, **CREATE)
    assert join(subnet, 1, state=SENDONLY).record.join_state == FULL | SENDONLY
    assert leave(subnet, 1, state=SENDONLY).record.join_state == FULL
    assert leave(subnet, 1, state=SENDONLY).status == SaStatus.REQ_INVALID
    assert leave(subnet, 1).record.join_state == 0
    assert leave(subnet, 1).status == SaStatus.REQ_INVALID


def test_group_ends_with_its_last_full_member(subnet):
    join(subnet, 1, **CREATE)
    join(subnet, 2, state=NON)
    join(subnet, 3, state=SENDONLY_FULL)
    leave(subnet, 1)
    assert ALL_HOSTS in groups(subnet)
    leave(subnet, 3, state=SENDONLY_FULL)
    assert groups(subnet) == [BROADCAST]
    assert join(subnet, 1, **CREATE).record.mlid == 0xC001


def test_a_join_has_a_state(subnet):
    assert join(subnet, 1, BROADCAST, state=0).status == SaStatus.REQ_INVALID


@pytest.mark.parametrize(
    "other",
    [
        *({"qkey": 1}, {"traffic_class": 1}, {"sl": 1}, {"flow_label": 1}, {"scope": 5}),
        *({"mtu": 4}, {"rate": 7}, {"pkey": 0x8001}, {"mlid": 0xC000}),
        {"packet_life_time_selector": Selector.LT, "packet_life_time": 18},
        {"mtu_selector": Selector.GT, "mtu": 5},
    ],
)
def test_who_joins_has_to_agree(subnet, other):
    join(subnet, 1, **CREATE)
    assert join(subnet, 2, **CREATE | other).status == SaStatus.REQ_INVALID
    assert members(subnet) == {subnet.gid(1): FULL}


@pytest.mark.parametrize("options", [{"mtu": 2048}, {"speed": 1, "width": 1}, {"pkeys": (0x8001,)}])
def test_a_port_that_cannot_keep_up_cannot_join(options):
    subnet = Subnet(2)
    subnet.ports.append(end_port(3, **options))
    assert join(subnet, 3, BROADCAST).status == SaStatus.REQ_INVALID
    assert not members(subnet, BROADCAST)


def test_a_group_gets_what_its_creator_can_do():
    subnet = Subnet(1, mtu=2048, speed=4)
    record = join(subnet, 1, but=CREATE.keys() & {"mtu", "rate", "hop_limit"}, **CREATE).record
    assert (record.mtu, record.rate, record.packet_life_time) == (4, 7, 18)
    assert join(subnet, 1, bytes.fromhex("ff12") + bytes(13) + b"\7", **CREATE).status == (
        SaStatus.REQ_INVALID
    )


def test_a_gid_of_the_administrators_choice(subnet):
    first = join(subnet, 1, bytes(16), scope=5, **CREATE).record
    second = join(subnet, 1, bytes(16), but=["mgid"], **CREATE).record
    assert first.mgid[:4] == bytes.fromhex("ff15a01b")
    assert second.mgid[:4] == bytes.fromhex("ff12a01b")
    assert first.mgid != second.mgid
    assert first.scope == 5
    assert join(subnet, 1, bytes(16), scope=0, **CREATE).status == SaStatus.REQ_INVALID


def test_the_administrators_choice_is_free(subnet):
    taken = bytes.fromhex("ff12a01b") + (1).to_bytes(12, "big")
    join(subnet, 1, taken, **CREATE)
    assert join(subnet, 1, bytes(16), **CREATE).record.mgid not in (taken, bytes(16))


def test_a_group_is_created_in_a_partition_of_the_port(subnet):
    assert join(subnet, 1, **CREATE | {"pkey": 0x8001}).status == SaStatus.REQ_INVALID
    assert groups(subnet) == [BROADCAST]


@pytest.mark.parametrize("head", ["fe80", "ff10", "ff1f", "ff92", "0012"])
def test_gids_that_are_no_multicast_gids(subnet, head):
    mgid = bytes.fromhex(head) + bytes(13) + b"\1"
    assert join(subnet, 1, mgid, **CREATE).status == SaStatus.REQ_INVALID


def test_a_port_joins_another_and_only_that_can_be_undone_by_it(subnet):
    assert join(subnet, 1, port=2, **CREATE).record.proxy_join == 1
    assert leave(subnet, 3, port=2).status == MadStatus.SUCCESS
    join(subnet, 1, port=2, **CREATE)
    assert join(subnet, 2, **CREATE).record.proxy_join == 0
    assert leave(subnet, 3, port=2).status == SaStatus.REQ_DENIED
    assert members(subnet) == {subnet.gid(2): FULL}


def test_a_port_of_another_partition_cannot_be_joined():
    subnet = Subnet(2)
    subnet.ports.append(end_port(3, pkeys=(0x8001,)))
    assert join(subnet, 1, BROADCAST, port=3).status == SaStatus.REQ_DENIED


def test_unknown_port(subnet):
    answer = join(subnet, 1, BROADCAST, port_gid=bytes(16))
    assert answer.status == SaStatus.REQ_INVALID_GID


def test_strangers_see_groups_and_not_members(subnet):
    join(subnet, 1, **CREATE)
    table = subnet.ask(2, GET_TABLE, SaAttr.MC_MEMBER_REC, mgid=ALL_HOSTS)
    (record,) = table.records
    assert (record.mlid, record.port_gid, record.join_state) == (0xC001, bytes(16), 0)
    own = subnet.ask(1, GET, SaAttr.MC_MEMBER_REC, mgid=ALL_HOSTS, port_gid=subnet.gid(1)).record
    assert own.join_state == FULL
    other = subnet.ask(2, GET, SaAttr.MC_MEMBER_REC, mgid=ALL_HOSTS, port_gid=subnet.gid(1))
    assert other.status == SaStatus.NO_RECORDS
    assert list(members(subnet)) == [subnet.gid(1)]


def test_groups_of_other_partitions_are_not_seen():
    subnet = Subnet(1, pkeys=(0xFFFF, 0x8001))
    subnet.ports.append(end_port(2))
    table = subnet.ask(2, GET_TABLE, SaAttr.MC_MEMBER_REC)
    assert [record.mgid for record in table.records] == [BROADCAST]
    assert len(subnet.ask(1, GET_TABLE, SaAttr.MC_MEMBER_REC).records) == 2


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({"mtu_selector": Selector.GT, "mtu": 4}, 2),
        ({"mtu_selector": Selector.LT, "mtu": 5}, 0),
        ({"rate_selector": Selector.EQ, "rate": 3}, 2),
        ({"rate_selector": Selector.GT, "rate": 3}, 0),
        ({"qkey": 0x0B1B}, 2),
        ({"mlid": 0xC001}, 1),
        ({"scope": 3}, 0),
    ],
)
def test_groups_by_what_they_are(subnet, wanted, count):
    join(subnet, 1, **CREATE)
    assert len(subnet.ask(1, GET_TABLE, SaAttr.MC_MEMBER_REC, **wanted).records) == count


def test_a_port_that_leaves_the_subnet_leaves_its_groups(subnet):
    join(subnet, 2, **CREATE)
    join(subnet, 2, BROADCAST)
    gone = subnet.ports.pop(1)
    subnet.sa.sweep()
    assert groups(subnet) == [BROADCAST]
    subnet.ports.append(gone)
    subnet.sa.sweep()
    assert not members(subnet, BROADCAST)


def test_groups_are_bounded(subnet, monkeypatch):
    monkeypatch.setattr(multicast, "MAX_GROUPS", 3)
    for lid in (1, 2):
        assert join(subnet, lid, ALL_HOSTS[:15] + bytes([lid]), **CREATE).record
    assert join(subnet, 3, ALL_HOSTS[:15] + b"\3", **CREATE).status == SaStatus.NO_RESOURCES
    assert join(subnet, 2, BROADCAST).record
    leave(subnet, 1, ALL_HOSTS[:15] + b"\1")
    assert join(subnet, 1, ALL_HOSTS[:15] + b"\3", **CREATE).record.mlid == 0xC001


def test_a_port_leaves_groups_to_the_others(subnet, monkeypatch):
    monkeypatch.setattr(multicast, "MAX_GROUPS_OF_A_PORT", 2)
    for number in (1, 2):
        assert join(subnet, 1, ALL_HOSTS[:15] + bytes([number]), **CREATE).record
    assert join(subnet, 1, ALL_HOSTS[:15] + b"\3", **CREATE).status == SaStatus.NO_RESOURCES
    assert join(subnet, 2, ALL_HOSTS[:15] + b"\3", **CREATE).record
    assert join(subnet, 1, ALL_HOSTS[:15] + b"\3").record


def test_a_host_leaves_groups_to_the_others(subnet, monkeypatch):
    monkeypatch.setattr(multicast, "MAX_GROUPS", 4)
    subnet.hosts = {1: "a", 2: "a"}
    for lid in (1, 2):
        assert join(subnet, lid, ALL_HOSTS[:15] + bytes([lid]), **CREATE).record
    assert join(subnet, 2, ALL_HOSTS[:15] + b"\3", **CREATE).status == SaStatus.NO_RESOURCES
    assert join(subnet, 3, ALL_HOSTS[:15] + b"\3", **CREATE).record


def test_a_listener_of_a_partition_that_is_gone_gets_no_more_of_its_group():
    subnet = Subnet(2, pkeys=(0xFFFF, 0x8001))
    routes = set()

    def forward(mlid, gid, listens):
        (routes.add if listens else routes.discard)((mlid, gid))

    subnet.sa.groups._forward = forward
    mgid = bytes.fromhex("ff12401b8001000000000000ffffffff")
    mlid = join(subnet, 2, mgid, NON).record.mlid
    assert routes == {(mlid, subnet.gid(2))}
    subnet.ports = [end_port(lid) for lid in (1, 2)]
    subnet.sa.sweep()
    assert groups(subnet) == [BROADCAST]
    assert not routes


def test_a_request_that_waits_while_ports_leave(subnet):
    """The notice of the first group lets it begin, and it ends the second group."""
    other = ALL_HOSTS[:-1] + b"\2"
    subnet.ask(3, SET, SaAttr.INFORM_INFO, (), subscribe=1, **ALL_NOTICES)
    join(subnet, 2, **CREATE)
    join(subnet, 1, other, **CREATE)
    join(subnet, 2, other, state=NON)
    mask = {"mgid": other, "port_gid": subnet.gid(1), "join_state": FULL}
    subnet.is_prompt = False
    subnet.clock.budget.charge(POLL_BUDGET + 1)
    subnet.send(1, subnet.request(DELETE, SaAttr.MC_MEMBER_REC, **mask))
    subnet.clock.budget.begin()
    subnet.ports.remove(subnet.port(2))
    subnet.sa.sweep()
    subnet.clock.advance(0)
    assert [mad.mad_hdr.status for mad in subnet.take(1)] == [MadStatus.SUCCESS]
    subnet.is_prompt = True
    assert groups(subnet) == [BROADCAST]
