"""Multicast on InfiniBand: a switch forwards to the ports that have joined by the administrator."""

import pytest

from emu.driver.nodes.cable import DueTimers
from emu.driver.nodes.two_nodes import two_nodes
from emu.driver.verbs.channels import QKEY, Channel
from emu.driver.verbs.gsi import joined, left
from layouts.enums.cmd import Op
from layouts.enums.qp import QpType
from layouts.wire.sa import JoinState

GROUP = bytes.fromhex("ff12401bffff00000000000000000077")
OTHER = bytes.fromhex("ff12401bffff00000000000000000078")
GRH = 1 << 30
FULL, SENDER, LISTENER = (
    JoinState.FULL_MEMBER,
    JoinState.SENDONLY_FULL_MEMBER,
    JoinState.NON_MEMBER,
)


@pytest.fixture
def pair(model, clock, wire):
    return two_nodes(model, clock, wire, DueTimers(clock))


@pytest.fixture
def channel(pair):
    """The receiver is attached to the group, and has one request."""
    made = Channel(QpType.UD, *pair)
    pair[1].driver.must(Op.ATTACH_TO_MCG, qpn=made.receiver.qpn, multicast_gid=GROUP)
    return made


def arrives(channel, mlid, mgid=GROUP):
    channel.post_recv(channel.right.region(4096).sge())
    to = {"dqp_dct": 0xFFFFFF, "rlid": mlid, "grh_gid_fl": GRH, "rgid": mgid, "key": QKEY << 32}
    channel.send(b"data", to=to)
    channel.settle()
    assert channel.sent()
    return bool(channel.received())


def test_who_has_joined_hears(pair, channel):
    assert arrives(channel, joined(pair[1], GROUP))


@pytest.mark.parametrize("mlid", [0xC000, 0xC001, 0xC123])
def test_nobody_hears_without_a_join(channel, mlid):
    """Not by the broadcast group's LID, nor by any other."""
    assert not arrives(channel, mlid)


def test_the_sender_s_join_is_not_the_receiver_s(pair, channel):
    assert not arrives(channel, joined(pair[0], GROUP))


def test_a_sender_need_not_join(pair, channel):
    mlid = joined(pair[1], GROUP)
    assert arrives(channel, mlid)


@pytest.mark.parametrize(("state", "hears"), [(FULL, 1), (LISTENER, 1), (SENDER, 0)])
def test_send_only_members_do_not_listen(pair, channel, state, hears):
    mlid = joined(pair[0], GROUP)
    assert joined(pair[1], GROUP, state) == mlid
    assert arrives(channel, mlid) == bool(hears)


def test_who_has_left_hears_no_more(pair, channel):
    mlid = joined(pair[1], GROUP)
    joined(pair[0], GROUP)  # the group goes on
    assert arrives(channel, mlid)
    left(pair[1], GROUP)
    assert not arrives(channel, mlid)


def test_a_listener_does_not_hear_the_next_group_with_the_lid_of_a_deleted_one(pair):
    channel = Channel(QpType.UD, *pair)
    pair[1].driver.must(Op.ATTACH_TO_MCG, qpn=channel.receiver.qpn, multicast_gid=OTHER)
    mlid = joined(pair[0], GROUP)
    assert joined(pair[1], GROUP, LISTENER) == mlid
    left(pair[0], GROUP)  # the last full member, so the group is deleted
    assert joined(pair[0], OTHER) == mlid
    assert not arrives(channel, mlid, OTHER)
    assert joined(pair[1], OTHER) == mlid
    assert arrives(channel, mlid, OTHER)


def test_a_group_s_lid_with_the_gid_of_another(pair, channel):
    """The switch knows the LID, the adapter the GID: both have to lead to the queue pair."""
    mine, its = joined(pair[1], GROUP), joined(pair[0], OTHER)
    assert not arrives(channel, its)
    assert not arrives(channel, mine, OTHER)
    assert arrives(channel, mine)


def test_a_port_that_was_down_has_to_join_again(pair, channel):
    mlid = joined(pair[1], GROUP)
    joined(pair[0], GROUP)
    pair[1].hca.port.set_link(up=False)
    pair[1].hca.wire.port_changed(pair[1].hca)
    pair[1].hca.port.set_link(up=True)
    pair[1].hca.wire.port_changed(pair[1].hca)
    assert not arrives(channel, mlid)
    assert joined(pair[1], GROUP) == mlid
    assert arrives(channel, mlid)


def test_an_adapter_loops_to_its_own_queue_pairs(pair):
    """Whether the port has joined or not: the packet does not pass the switch."""
    node = pair[0]
    channel = Channel(QpType.UD, node, node)
    node.driver.must(Op.ATTACH_TO_MCG, qpn=channel.receiver.qpn, multicast_gid=GROUP)
    assert arrives(channel, 0xC123)
